package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout/plan"
)

// TestMain makes the program, and small readers of its output, commands that scripts execute.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"moeplan": main,
		// json FILE PATH... prints the values at paths such as plans.0.layout, one compact line each; "len" counts
		// the elements and "keys" lists an object's keys.
		"json": func() { helper(printJSON) },
		// plancheck FILE N holds a plan file against DESIGN.md section 4 and wants N plans in it (+: at least one).
		"plancheck": func() { helper(checkPlanFile) },
		// rankscheck FILE holds groups in the default order against their definition, computed here from scratch.
		"rankscheck": func() { helper(checkRanksFile) },
		// startcost ARGS... runs moeplan and prints how many bytes it allocated; see TestStart.
		"startcost": func() { helper(startCost) },
	})
}

// TestScripts runs testdata/script. Each script says why it exists. Commands of our own, beside those above:
//
//	exits CODE COMMAND...    the command's exit code, exactly
//	refuses CODE COMMAND...  also: nothing on standard output, one line "moeplan: ..." on standard error, no stack
//	                         trace; and with -o json the same message as one JSON object
//
// $EVIDENCE is the folder of sample logs and traces. UPDATE=1 rewrites what cmp compares with; read the difference before you
// commit it.
func TestScripts(t *testing.T) {
	evidence, err := filepath.Abs(evidenceData)
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("EVIDENCE", evidence)
			return nil
		},
		UpdateScripts: os.Getenv("UPDATE") != "",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":   func(ts *testscript.TestScript, neg bool, args []string) { exits(ts, neg, args) },
			"refuses": refuses,
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d\n%s%s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

func refuses(ts *testscript.TestScript, neg bool, args []string) {
	exits(ts, neg, append(slices.Clone(args), "-o", "json"))
	asJSON := []byte(ts.ReadFile("stderr"))
	exits(ts, neg, args)
	text := ts.ReadFile("stderr")

	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("refused, and yet printed:\n%s", out)
	}
	if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "moeplan: ") || !strings.HasSuffix(text, "\n") {
		ts.Fatalf("want one line that starts with moeplan:, got:\n%s", text)
	}
	if strings.Contains(text, "goroutine") || strings.Contains(text, ".go:") {
		ts.Fatalf("a stack trace:\n%s", text)
	}
	var report struct {
		Error string `json:"error"`
		Exit  int    `json:"exit"`
	}
	if err := json.Unmarshal(asJSON, &report); err != nil {
		ts.Fatalf("with -o json: %v:\n%s", err, asJSON)
	}
	if want := strings.TrimSpace(strings.TrimPrefix(text, "moeplan: ")); report.Error != want || strconv.Itoa(report.Exit) != args[0] {
		ts.Fatalf("with -o json: %s\nwant exit %s, error %q", asJSON, args[0], want)
	}
}

// helper runs one of the commands for scripts as a process.
func helper(command func(args []string, out io.Writer) error) {
	if err := command(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func printJSON(args []string, out io.Writer) error {
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var root any
	if err := json.Unmarshal(data, &root); err != nil {
		return err
	}
	for _, path := range args[1:] {
		value := root
		for step := range strings.SplitSeq(path, ".") {
			var ok bool
			if value, ok = descend(value, step); !ok {
				return fmt.Errorf("%s: no %q", path, step)
			}
		}
		line, err := json.Marshal(value)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", line)
	}
	return nil
}

func descend(value any, step string) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		if step == "keys" {
			keys := make([]string, 0, len(v))
			for k := range v {
				keys = append(keys, k)
			}
			slices.Sort(keys)
			return keys, true
		}
		child, ok := v[step]
		return child, ok
	case []any:
		if step == "len" {
			return len(v), true
		}
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(v) {
			return v[i], true
		}
	}
	return nil, false
}

// contract is DESIGN.md section 4, "Plan": the keys that other programs rely on. The types are those of plan.Result,
// into which the file is read strictly.
var contract = []struct {
	path string
	keys string
}{
	{"", "request assumed searched plans nearest_miss"},
	{"searched", "meshes layouts legal fit rejected_by_rule not_searched seconds"},
	{"plans.*", "rank equal_to_best key layout stages grade headroom_gib max_imbalance step_time_ms step_time_band " +
		"tuned_step_time_ms tflops_per_gpu tokens_per_second_per_gpu nvlink_fraction exposed_communication_ms " +
		"communication wall published_twin why"},
	{"plans.*.layout", "tensor_model_parallel_size context_parallel_size data_parallel_size pipeline_model_parallel_size " +
		"virtual_pipeline_model_parallel_size expert_tensor_parallel_size expert_model_parallel_size " +
		"expert_data_parallel_size micro_batch_size global_batch_size num_microbatches"},
	{"plans.*.stages.*", "pipeline_rank layers embedding output_layer mtp_layers parameters memory"},
	{"plans.*.stages.*.parameters", "dense expert total"},
	{"plans.*.stages.*.memory", "weights gradients optimizer workspace activations transient dense_state expert_state " +
		"allocated_after_step peak_allocated peak_reserved peak_device peak_device_low"},
}

func checkPlanFile(args []string, _ io.Writer) error {
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var root any
	if err := json.Unmarshal(data, &root); err != nil {
		return err
	}
	for _, c := range contract {
		if err := hasKeys(root, c.path, strings.Fields(c.keys)); err != nil {
			return err
		}
	}
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	var r plan.Result
	if err := strict.Decode(&r); err != nil {
		return err
	}
	if strict.More() {
		return errors.New("text after the object")
	}
	if want := args[1]; want != strconv.Itoa(len(r.Plans)) && (want != "+" || len(r.Plans) == 0) {
		return fmt.Errorf("%d plans, want %s", len(r.Plans), want)
	}
	if (len(r.Plans) == 0) != (r.NearestMiss != nil) {
		return errors.New("a nearest miss goes with an answer without plans, and only with that")
	}
	var errs []error
	rejected := 0
	for _, n := range r.Searched.RejectedByRule {
		rejected += n
	}
	if r.Searched.Legal+rejected != r.Searched.Layouts || r.Searched.Fit > r.Searched.Legal {
		errs = append(errs, fmt.Errorf("searched: %d legal and %d rejected are not %d layouts", r.Searched.Legal, rejected, r.Searched.Layouts))
	}
	meshes := map[[5]int]bool{}
	for i := range r.Plans {
		p := &r.Plans[i]
		mesh := [5]int{p.Sizes.TP, p.Sizes.CP, p.Sizes.PP, p.Sizes.ETP, p.Sizes.EP}
		if meshes[mesh] {
			errs = append(errs, fmt.Errorf("%s: its pair of meshes is listed twice", p.Key))
		}
		meshes[mesh] = true
		if p.Rank != i+1 {
			errs = append(errs, fmt.Errorf("plan %d has rank %d", i+1, p.Rank))
		}
		errs = append(errs, checkPlan(&r.Request, p)...)
	}
	if len(r.Plans) > 0 && (!r.Plans[0].EqualToBest || len(r.Plans[0].Why) == 0) {
		errs = append(errs, errors.New("the first plan is not equal to the best, or has no reasons"))
	}
	return errors.Join(errs...)
}

// hasKeys checks every object at a path, in which * stands for each element of an array.
func hasKeys(value any, path string, keys []string) error {
	if path == "" {
		object, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("want an object, got %T", value)
		}
		for _, k := range keys {
			if _, ok := object[k]; !ok {
				return fmt.Errorf("no key %q", k)
			}
		}
		return nil
	}
	step, rest, _ := strings.Cut(path, ".")
	if step != "*" {
		child, ok := descend(value, step)
		if !ok {
			return fmt.Errorf("no key %q", step)
		}
		return hasKeys(child, rest, keys)
	}
	list, ok := value.([]any)
	if !ok {
		return fmt.Errorf("want an array, got %T", value)
	}
	for _, child := range list {
		if err := hasKeys(child, rest, keys); err != nil {
			return err
		}
	}
	return nil
}

// checkPlan checks what must hold of any plan, whatever the figures: arithmetic between its fields.
func checkPlan(q *plan.Echo, p *plan.Plan) (errs []error) {
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(p.Key+": "+format, args...))
		}
	}
	s := &p.Sizes
	want(s.TP*s.CP*s.DP*s.PP == q.GPUs && s.ETP*s.EP*s.EDP*s.PP == q.GPUs, "a mesh is not %d GPUs", q.GPUs)
	want(s.MicroBatchSize*s.DP*s.NumMicrobatches == s.GlobalBatchSize, "batch does not add up")
	want(p.Grade == plan.Fits, "listed though graded %s", p.Grade)
	want(p.StepTimeBand[0] <= p.StepTimeMS && p.StepTimeMS <= p.StepTimeBand[1], "step time outside its band")
	want(p.TunedTimeMS > 0 && p.TFLOPSPerGPU > 0 && p.TokensPerGPU > 0, "a speed of 0")
	want(p.NVLinkFraction == nil || *p.NVLinkFraction >= 0 && *p.NVLinkFraction <= 1, "NVLink fraction")
	exposed := 0.0
	for _, c := range p.Communication {
		exposed += c.ExposedMS
		want(c.BytesCrossing <= c.Bytes, "%s: more bytes leave the domain than are sent", c.Axis)
		want(c.Domains > 1 || c.BytesCrossing == 0, "%s: bytes leave the only domain", c.Axis)
		want(c.ExposedMS <= c.TimeMS*(1+1e-9), "%s: exposed for longer than it takes", c.Axis)
	}
	want(exposed-p.ExposedMS < 1e-6*exposed+1e-9 && p.ExposedMS-exposed < 1e-6*exposed+1e-9, "exposed communication does not add up")

	want(len(p.Stages) == s.PP, "%d stages", len(p.Stages))
	var layers []int
	limit := int64((q.MemoryGiB - q.ReserveGiB - q.HeadroomGiB) * (1 << 30))
	for i := range p.Stages {
		st, m := &p.Stages[i], &p.Stages[i].Memory
		sum := m.Weights + m.Gradients + m.Optimizer + m.Workspace + m.Activations + m.Transient
		want(m.PeakAllocated == max(sum, m.AllocatedAfterStep), "stage %d: parts are %d, the peak is %d", i, sum, m.PeakAllocated)
		want(m.DenseState+m.ExpertState == m.Weights+m.Gradients+m.Optimizer, "stage %d: dense and expert state", i)
		want(m.PeakAllocated <= limit+1, "stage %d: over the limit", i)
		want(m.PeakAllocated <= m.PeakDeviceLow && m.PeakDeviceLow <= m.PeakDevice, "stage %d: range of the card", i)
		want(m.PeakReserved >= m.PeakAllocated, "stage %d: reserved less than allocated", i)
		want(st.Parameters.Dense+st.Parameters.Expert == st.Parameters.Total, "stage %d: parameters", i)
		want(st.Embedding == (i == 0) && st.OutputLayer == (i == s.PP-1), "stage %d: ends", i)
		want(len(st.Layers) == s.VPP, "stage %d: %d chunks", i, len(st.Layers))
		for _, chunk := range st.Layers {
			layers = append(layers, chunk...)
		}
	}
	slices.Sort(layers)
	for i, l := range layers {
		want(l == i+1, "layer %d is missing or held twice", i+1)
	}
	return errs
}

// checkRanksFile computes every group of the default order anew: rank = tp + TP*(cp + CP*(dp + DP*pp)), and for experts
// etp + ETP*(ep + EP*(edp + EDP*pp)) (layout-rules.md 1.4). Which axes a family joins is DESIGN's list.
func checkRanksFile(args []string, _ io.Writer) error {
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var r ranksJSON
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	attention, experts := []int{r.TP, r.CP, r.DP, r.PP}, []int{r.ETP, r.EP, r.EDP, r.PP}
	ends := func(pipelines [][]int, keep func([]int) []int) (out [][]int) {
		for _, g := range pipelines {
			out = append(out, keep(g))
		}
		return out
	}
	pipelines := groupsOf(attention, 3)
	want := map[string][][]int{
		"tp": groupsOf(attention, 0), "cp": groupsOf(attention, 1), "dp": groupsOf(attention, 2), "pp": pipelines,
		"dp_cp": groupsOf(attention, 1, 2), "tp_cp": groupsOf(attention, 0, 1), "tp_pp": groupsOf(attention, 0, 3),
		"tp_dp": groupsOf(attention, 0, 2), "tp_dp_cp": groupsOf(attention, 0, 1, 2),
		"etp": groupsOf(experts, 0), "ep": groupsOf(experts, 1), "edp": groupsOf(experts, 2),
		"etp_ep": groupsOf(experts, 0, 1), "etp_ep_pp": groupsOf(experts, 0, 1, 3),
		"embedding": ends(pipelines, func(g []int) []int {
			if len(g) == 1 {
				return g
			}
			return []int{g[0], g[len(g)-1]}
		}),
		"position_embedding": ends(pipelines, func(g []int) []int { return g[:1] }),
	}
	var errs []error
	for kind, groups := range want {
		got, ok := r.Groups[folding.GroupKind(kind)]
		if !ok {
			errs = append(errs, fmt.Errorf("no groups %q", kind))
			continue
		}
		if !slices.EqualFunc(got, groups, slices.Equal[[]int]) {
			errs = append(errs, fmt.Errorf("%s: %v, want %v", kind, got, groups))
		}
	}
	// One optimizer instance holds every rank once; in which order is the framework's own (recorded in folding).
	var all []int
	for _, g := range r.Groups[folding.GroupOptimizerInstance] {
		all = append(all, g...)
	}
	slices.Sort(all)
	if len(all) != r.World || len(all) > 0 && (all[0] != 0 || all[len(all)-1] != r.World-1) {
		errs = append(errs, fmt.Errorf("optimizer_instance: %d ranks of %d", len(all), r.World))
	}
	if len(r.Groups) != len(want)+1 {
		errs = append(errs, fmt.Errorf("%d families, want %d", len(r.Groups), len(want)+1))
	}
	return errors.Join(errs...)
}

// groupsOf lists the groups along some axes of a mesh whose first axis varies fastest, by visiting every rank.
func groupsOf(sizes []int, axes ...int) [][]int {
	world := 1
	for _, n := range sizes {
		world *= n
	}
	of := map[string]int{} // coordinates on the other axes -> group
	var groups [][]int
	for rank := range world {
		key, rest := "", rank
		for axis, n := range sizes {
			if !slices.Contains(axes, axis) {
				key += fmt.Sprint(rest%n, " ")
			}
			rest /= n
		}
		g, ok := of[key]
		if !ok {
			g = len(groups)
			of[key], groups = g, append(groups, nil)
		}
		groups[g] = append(groups[g], rank)
	}
	return groups
}

// TestClosedOutput: a result that could not be written is a failure.
func TestClosedOutput(t *testing.T) {
	for _, args := range []string{
		"--gpus 8 --model qwen3-8b -o json", "--gpus 8 --model qwen3-8b -o csv", "models", "platforms",
		"ranks --world 8", "emit --gpus 8 --model qwen3-8b tp1",
	} {
		var problems bytes.Buffer
		if code := run(context.Background(), strings.Fields(args), fullDisk{}, &problems); code != exitFailure {
			t.Errorf("%s: exit %d, want %d: %s", args, code, exitFailure, &problems)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
