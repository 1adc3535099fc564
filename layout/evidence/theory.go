package evidence

import (
	"fmt"
	"math"
	"strconv"

	"github.com/moeplan/moeplan/layout/megatron"
)

// TheoryCheck is the framework's own estimate, as printed and as reproduced from the layout's flags.
type TheoryCheck struct {
	Printed    Theoretical `json:"printed"`
	Reproduced *[3]float64 `json:"reproduced_mib"` // weights, activations, total; null if it could not be
	// Agrees: the printed figures come out to the two decimals that they have.
	Agrees bool    `json:"agrees"`
	Why    *string `json:"why"` // why it was not reproduced; null if it was
}

// theories reproduces the theoretical lines of a log with megatron.Theoretical, from the layout's own flags and, where the
// log shows its arguments, their padded vocabulary and global batch.
func theories(c *Claim, log *Log) []TheoryCheck {
	if len(log.Theoretical) == 0 {
		return nil
	}
	footprint, err := footprint(c, log)
	var out []TheoryCheck
	for i, t := range log.Theoretical {
		if i > 0 && same(t, log.Theoretical[i-1]) {
			continue
		}
		check := TheoryCheck{Printed: t}
		if err != nil {
			check.Why = new(err.Error())
		} else {
			w, a, total := footprint.ReportMiB()
			check.Reproduced = &[3]float64{w, a, total}
			near := func(x, y float64) bool { return math.Abs(x-y) <= 0.0051 }
			check.Agrees = near(w, t.WeightsMiB) && (!t.ActivationsMiB.Known || near(a, t.ActivationsMiB.V))
		}
		out = append(out, check)
	}
	return out
}

func same(a, b Theoretical) bool {
	return a.WeightsMiB == b.WeightsMiB && a.ActivationsMiB == b.ActivationsMiB && a.TotalMiB == b.TotalMiB
}

func footprint(c *Claim, log *Log) (megatron.Footprint, error) {
	args, err := megatron.Training(c.Layout, c.Model)
	if err != nil {
		return megatron.Footprint{}, err
	}
	batch := c.Layout.GlobalBatchSize
	if n, err := strconv.Atoi(log.Arguments["global_batch_size"]); err == nil && n > 0 {
		batch = n
		args.Set("--global-batch-size", strconv.Itoa(n))
	}
	if n, err := strconv.Atoi(log.Arguments["padded_vocab_size"]); err == nil && n > 0 {
		args.Set("--padded-vocab-size", strconv.Itoa(n))
	} else if _, ok := args.Get("--vocab-size"); !ok {
		args.Set("--vocab-size", strconv.Itoa(c.Model.VocabSize))
	}
	settings, err := megatron.Parse(args.Argv(), megatron.Main)
	if err != nil {
		return megatron.Footprint{}, err
	}
	resolved, err := megatron.Resolve(settings, c.Layout.World, nil)
	if err != nil {
		return megatron.Footprint{}, err
	}
	return megatron.Theoretical(resolved, batch/(c.Layout.MicroBatchSize*c.Layout.DP()))
}

// mismatches lists the arguments in a log that cannot belong to a run of the claim's layout. What a check changes on
// purpose (dispatcher, global batch) is not among those compared.
func mismatches(c *Claim, log *Log) []string {
	l, m := c.Layout, c.Model
	vpp := "None"
	if l.VPP > 1 {
		vpp = strconv.Itoa(l.VPP)
	}
	granularity := [...]string{"None", "selective", "full"}[l.Recompute.Granularity]
	experts := "None"
	if m.MoE != nil {
		experts = strconv.Itoa(m.MoE.NumExperts)
	}
	var out []string
	for _, a := range []struct{ name, want string }{
		{"world_size", strconv.Itoa(l.World)},
		{"tensor_model_parallel_size", strconv.Itoa(l.TP)},
		{"context_parallel_size", strconv.Itoa(l.CP)},
		{"pipeline_model_parallel_size", strconv.Itoa(l.PP)},
		{"virtual_pipeline_model_parallel_size", vpp},
		{"expert_model_parallel_size", strconv.Itoa(l.EP)},
		{"expert_tensor_parallel_size", strconv.Itoa(l.ETP)},
		{"num_layers", strconv.Itoa(m.NumLayers)},
		{"hidden_size", strconv.Itoa(m.HiddenSize)},
		{"num_experts", experts},
		{"seq_length", strconv.Itoa(l.SeqLength)},
		{"micro_batch_size", strconv.Itoa(l.MicroBatchSize)},
		{"recompute_granularity", granularity},
	} {
		if got, ok := log.Arguments[a.name]; ok && got != a.want {
			out = append(out, fmt.Sprintf("%s: the run had %s %s, the layout has %s", log.Name, a.name, clipped(got), a.want))
		}
	}
	return out
}
