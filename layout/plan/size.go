package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/moeplan/moeplan/layout"
)

// SizeRequest asks how many GPUs to train a model on.
type SizeRequest struct {
	// Request holds the question but the number of GPUs. Its global batch is an input with consequences: it stays the
	// same for every count, so that data parallelism ends where it ends.
	Request
	// Counts are the numbers of GPUs to compare, in whole nodes, ascending.
	Counts []int
	// Tokens is the training budget; 0 leaves days and cost out.
	Tokens float64
	// PricePerGPUHour is in any currency; 0 leaves cost out.
	PricePerGPUHour float64
	// Goodput is the share of wall-clock time in which steps make progress; 0 means 1.
	Goodput float64
}

// Sizing is the answer to a SizeRequest.
type Sizing struct {
	Model           string   `json:"model"`             // the catalogue's id, or that of a file
	Platform        string   `json:"platform"`          // the catalogue's id, or that of a file
	GlobalBatchSize int      `json:"global_batch_size"` // sequences a step, the same for all rows
	SeqLength       int      `json:"seq_length"`        // tokens a sequence
	Tokens          *float64 `json:"tokens"`            // to train on, of --tokens; null where it was not given
	// FloorGPUs is the arithmetic floor: fewer cannot hold weights and gradients once; null where a GPU has no memory to
	// offer. FewestGPUs is the smallest number, in whole nodes, on which a layout fits, with that layout; null when none was
	// found.
	FloorGPUs  *int      `json:"floor_gpus"`
	FewestGPUs *int      `json:"fewest_gpus"`
	FewestKey  *string   `json:"fewest_key"` // in text form; null when none was found
	Rows       []SizeRow `json:"rows"`       // one a number of GPUs, in the order asked for
}

// SizeRow is one number of GPUs.
type SizeRow struct {
	GPUs int     `json:"gpus"`               // how many are compared
	Key  *string `json:"key"`                // null if nothing fits or nothing is legal; Why then says which
	DP   *int    `json:"data_parallel_size"` // null without a layout
	// NumMicrobatches is how many micro-batches a pipeline works through per step; null without a layout.
	NumMicrobatches *int `json:"num_microbatches"`
	// StepTimeMS is the tuned estimate in ms; null without a layout. Ranges are its band of +-15 %.
	StepTimeMS   *float64    `json:"step_time_ms"`
	TokensPerSec *float64    `json:"tokens_per_second"` // of all GPUs together, from step_time_ms; null without a layout
	Efficiency   *float64    `json:"efficiency"`        // tokens/s per GPU over that of the best row, 0 to 1; null without a layout
	Days         *[2]float64 `json:"days"`              // of training on the tokens, as [low, high]; null without --tokens or a layout
	GPUHours     *[2]float64 `json:"gpu_hours"`         // of that training, as [low, high]; null without --tokens or a layout
	Cost         *[2]float64 `json:"cost"`              // of those hours, as [low, high]; null without --tokens, --price-per-gpu-hour or a layout
	Why          string      `json:"why"`               // the wall and where efficiency goes, or why there is no layout
}

// Size answers a SizeRequest.
func Size(ctx context.Context, r SizeRequest) (*Sizing, error) {
	goodput := cmp.Or(r.Goodput, 1)
	if !(goodput > 0 && goodput <= 1) {
		return nil, fmt.Errorf("goodput %g does not lie between 0 and 1", goodput)
	}
	if len(r.Counts) == 0 {
		return nil, errors.New("no number of GPUs to compare")
	}
	r.GPUs = r.Counts[0]
	if r.GlobalBatchSize == 0 {
		r.GlobalBatchSize = layout.DefaultGlobalBatch(cmp.Or(r.SeqLength, DefaultSeqLength), 1)
	}
	base, _ := r.Request.filled()
	p, err := newPricer(&base)
	if err != nil {
		return nil, err
	}
	out := &Sizing{Model: r.Model.ID, Platform: r.Platform.ID, GlobalBatchSize: r.GlobalBatchSize, SeqLength: base.SeqLength,
		Tokens: orNull(r.Tokens), FloorGPUs: orNull(p.floorGPUs(&base))}
	fewest, key, err := fewestGPUs(ctx, &base)
	if err != nil {
		return nil, err
	}
	out.FewestGPUs, out.FewestKey = orNull(fewest), orNull(key)
	for _, n := range r.Counts {
		row, err := sizeRow(ctx, &r, n, goodput)
		if err != nil {
			return nil, err
		}
		out.Rows = append(out.Rows, row)
	}
	out.compare()
	return out, nil
}

// sizeRow finds the best plan on one number of GPUs.
func sizeRow(ctx context.Context, r *SizeRequest, gpus int, goodput float64) (SizeRow, error) {
	q := r.Request
	q.GPUs, q.Top = gpus, 1
	q, _ = q.filled()
	row := SizeRow{GPUs: gpus}
	best, err := bestPlan(ctx, &q)
	switch {
	case errors.Is(err, layout.ErrNoLayout):
		row.Why = "nothing legal: " + err.Error()
		return row, nil
	case err != nil:
		return row, err
	case best == nil:
		row.Why = "nothing fits"
		return row, nil
	}
	tokens := float64(q.GlobalBatchSize) * float64(q.SeqLength)
	row.Key, row.DP, row.NumMicrobatches = &best.Key, &best.Sizes.DP, &best.Sizes.NumMicrobatches
	row.StepTimeMS = &best.TunedTimeMS
	row.TokensPerSec = new(tokens / (best.TunedTimeMS / 1e3))
	if r.Tokens > 0 {
		days := r.Tokens / *row.TokensPerSec / goodput / 86400
		row.Days = around(days)
		row.GPUHours = around(days * 24 * float64(gpus))
		if r.PricePerGPUHour > 0 {
			row.Cost = around(days * 24 * float64(gpus) * r.PricePerGPUHour)
		}
	}
	row.Why = best.Wall
	return row, nil
}

// timeBand is the relative half-width of an estimated time (steptime.Price.Band).
const timeBand = 0.15

func around(x float64) *[2]float64 { return &[2]float64{x * (1 - timeBand), x * (1 + timeBand)} }

// bestPlan is the first plan of a question, or nil if nothing fits.
func bestPlan(ctx context.Context, r *Request) (*Plan, error) {
	space, err := r.space()
	if err != nil {
		return nil, err
	}
	found, err := sweep(ctx, r, space)
	if err != nil {
		return nil, err
	}
	if found.legal() == 0 {
		return nil, found.noLayout(r.Model, space)
	}
	p, err := newPricer(r)
	if err != nil {
		return nil, err
	}
	plans, err := p.ranked(found.best(), 1)
	if err != nil || len(plans) == 0 {
		return nil, err
	}
	return &plans[0], nil
}

// fallOff is the efficiency below which a row is said to have lost it.
const fallOff = 0.8

// compare fills efficiencies and says where they fall off.
func (s *Sizing) compare() {
	best := 0.0
	for i := range s.Rows {
		if row := &s.Rows[i]; row.Key != nil {
			best = max(best, *row.TokensPerSec/float64(row.GPUs))
		}
	}
	for i := range s.Rows {
		row := &s.Rows[i]
		if row.Key == nil {
			continue
		}
		row.Efficiency = new(*row.TokensPerSec / float64(row.GPUs) / best)
		row.Why = "wall: " + row.Why
		switch {
		case *row.DP >= s.GlobalBatchSize:
			row.Why = fmt.Sprintf("DP %d takes the whole batch of %d sequences: more GPUs only add model parallelism", *row.DP, s.GlobalBatchSize)
		case *row.Efficiency < fallOff:
			row.Why += fmt.Sprintf("; %d micro-batches a pipeline and step", *row.NumMicrobatches)
		}
	}
}

// floorGPUs is the arithmetic floor: weights, and gradients of what is trained, held once, over the memory that one GPU may
// use.
func (p *pricer) floorGPUs(r *Request) int {
	total, _ := r.Model.Parameters()
	limit := p.budget.limit()
	if limit <= 0 {
		return 0
	}
	gradients := total * int64(r.gradientBytes())
	if f := r.TrainableFraction; f > 0 {
		gradients = int64(f * float64(gradients))
	}
	return int((2*total + gradients + limit - 1) / limit)
}

// SizeCounts are the numbers of GPUs to compare in a range: its ends, in whole nodes, and between them powers of two
// times the node, which divide well.
func SizeCounts(low, high, node int) []int {
	first, last := (low+node-1)/node*node, high/node*node
	var counts []int
	if first > last || first < 1 {
		return nil
	}
	counts = append(counts, first)
	for n := node; n < last; n *= 2 {
		if n > first {
			counts = append(counts, n)
		}
	}
	if last > first {
		counts = append(counts, last)
	}
	return counts
}
