package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/topology"
)

type batchCmd struct {
	File string `arg:"" optional:"" help:"File of JSON lines; - or nothing is standard input."`
}

// maxLine bounds one request.
const maxLine = 1 << 20

// batchRequest is one line of input (DESIGN.md section 4, Batch).
type batchRequest struct {
	ID        json.RawMessage   `json:"id"`
	World     *int              `json:"world_size"`
	Args      []string          `json:"args"`
	Env       map[string]string `json:"env"`
	Platform  string            `json:"platform"`
	Release   string            `json:"megatron_version"`
	TE        string            `json:"te_version"`
	Checks    string            `json:"checks"`
	Imbalance *float64          `json:"imbalance"`
	Rank      *int              `json:"rank"`
}

// batchAnswer is one line of output. What arithmetic does not define is null.
type batchAnswer struct {
	ID         json.RawMessage   `json:"id"`         // the request's id, whatever JSON value that was; null if it had none
	Violations layout.Violations `json:"violations"` // the rules that the command line breaks, in the order in which the framework would hit them; [] if none
	Layout     *plan.Sizes       `json:"layout"`     // degrees and batch; null where no layout is defined
	Parameters *batchParameters  `json:"parameters"` // elements of the model; null where none is defined
	// Stages are one a pipeline rank, or the one of the rank that the request selects; null where memory is not defined
	// (missing says why).
	Stages []plan.Stage `json:"stages"`
	// StepTimeMS is the estimated time of one step in ms; null without a platform, and where the step has no price.
	StepTimeMS *float64 `json:"step_time_ms"`
	// TFLOPS is model TFLOPS of one GPU (1e12 FLOP/s) in that step; null with step_time_ms.
	TFLOPS *float64 `json:"tflops_per_gpu"`
	// NVLink is the share, 0 to 1, of the hot communication's bytes that stays inside NVLink domains; null where it is not
	// known.
	NVLink     *float64 `json:"nvlink_fraction"`
	Unmodelled []string `json:"unmodelled"`        // what the command line asks for and memory does not price; [] if nothing
	Missing    string   `json:"missing,omitempty"` // why layout, parameters or stages are null; absent if none is
}

// batchParameters are elements of the whole model, not of one rank.
type batchParameters struct {
	Total  int64 `json:"total"`  // all of them
	Active int64 `json:"active"` // those that one token uses: of the experts its top-k and the shared ones
}

type batchError struct {
	ID    json.RawMessage `json:"id"`
	Error string          `json:"error"`
}

func (c *batchCmd) Run(ctx context.Context, s streams) error {
	var in io.Reader = os.Stdin
	if c.File != "" && c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	out := bufio.NewWriter(s.out)
	encode := json.NewEncoder(out)
	encode.SetEscapeHTML(false)
	lines := bufio.NewReaderSize(in, 64<<10)
	for number := 1; ; number++ {
		line, tooLong, err := readLine(lines)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if text := strings.TrimSpace(string(line)); text != "" || tooLong {
			answer := any(batchError{json.RawMessage("null"), fmt.Sprintf("line %d is longer than %d bytes", number, maxLine)})
			if !tooLong {
				answer = answerLine(ctx, []byte(text))
			}
			if err := encode.Encode(answer); err != nil {
				return err
			}
			if lines.Buffered() == 0 { // whoever waits for this answer before asking again gets it
				if err := out.Flush(); err != nil {
					return err
				}
			}
		}
		if err != nil {
			return out.Flush()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// readLine reads a line of at most maxLine bytes; of a longer one it drops the rest and says so.
func readLine(r *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			tooLong, line = true, nil
		} else if !tooLong {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

// answerLine answers one request; nothing in it stops the batch.
func answerLine(ctx context.Context, line []byte) any {
	var q batchRequest
	fail := func(err error) any {
		if len(q.ID) == 0 {
			q.ID = json.RawMessage("null")
		}
		return batchError{q.ID, err.Error()}
	}
	if err := json.Unmarshal(line, &q); err != nil {
		var onlyID struct {
			ID json.RawMessage `json:"id"`
		}
		if json.Unmarshal(line, &onlyID) == nil {
			q.ID = onlyID.ID
		}
		return fail(fmt.Errorf("not a request: %w", jsonProblem(err)))
	}
	launch, err := q.launch()
	if err != nil {
		return fail(err)
	}
	j, err := plan.Judge(ctx, launch)
	if err != nil {
		return fail(err)
	}
	a := batchAnswer{ID: q.ID, Violations: j.Violations, Stages: j.Stages, StepTimeMS: j.StepTimeMS, TFLOPS: j.TFLOPS,
		NVLink: j.NVLinkFraction, Unmodelled: j.Unmodelled, Missing: j.Missing}
	if a.Unmodelled == nil {
		a.Unmodelled = []string{}
	}
	if j.Layout != nil {
		sizes := plan.SizesOf(j.Model, j.Layout)
		a.Layout = &sizes
	}
	if j.Total > 0 {
		a.Parameters = &batchParameters{j.Total, j.Active}
	}
	return a
}

func (q *batchRequest) launch() (plan.Launch, error) {
	out := plan.Launch{Argv: q.Args, Env: q.Env, Rank: q.Rank}
	switch {
	case len(q.ID) == 0:
		return out, errors.New("id is missing")
	case q.World == nil:
		return out, errors.New("world_size is missing")
	case q.Args == nil:
		return out, errors.New("args is missing")
	case *q.World < 1 || *q.World > layout.MaxSize:
		return out, fmt.Errorf("world_size %d does not lie between 1 and %d", *q.World, layout.MaxSize)
	}
	out.World = *q.World
	var err error
	if out.Release, err = megatron.ParseRelease(q.Release); err != nil {
		return out, err
	}
	if q.Platform != "" {
		if out.Platform, err = topology.LookupPlatform(q.Platform); err != nil {
			return out, err
		}
		out.Checks.ComputeCapability = out.Platform.SM.Int() / 10
	}
	out.Checks.TransformerEngine = q.TE
	switch q.Checks {
	case "", "normal":
	case "recorder":
		out.Checks.Checks = megatron.Recorder
	default:
		return out, fmt.Errorf("checks %q: known are normal and recorder", q.Checks)
	}
	if q.Imbalance != nil {
		if !(*q.Imbalance >= 1 && *q.Imbalance <= 1e6) {
			return out, fmt.Errorf("imbalance %g: balanced is 1", *q.Imbalance)
		}
		out.Imbalance = *q.Imbalance
	}
	if q.Rank != nil && (*q.Rank < 0 || *q.Rank >= out.World) {
		return out, fmt.Errorf("rank %d is none of %d", *q.Rank, out.World)
	}
	return out, nil
}
