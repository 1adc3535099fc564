package main

import (
	"context"
	"strings"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/evidence"
	"github.com/moeplan/moeplan/layout/plan"
)

type contractCmd struct {
	chosen   `embed:""`
	Set      []string `placeholder:"FIELD=VALUE" sep:"none" help:"Fill in a field, such as software.nccl_version=2.28 or workload.data_path=/data; repeatable."`
	Variable string   `placeholder:"FIELD" help:"The one field under test, such as layout.moe_token_dispatcher."`
	Base     string   `placeholder:"VALUE" help:"Its value in the run to compare with."`
	Output   string   `short:"o" enum:"yaml,json" default:"yaml" help:"Format: yaml or json."`
}

// Help is the part of the usage below the summary.
func (contractCmd) Help() string {
	return `Writes the conditions of a measurement as YAML: what is known is filled in, the rest is blank. Each field is frozen but the
one that --variable names. The run is labelled training-equivalent, or benchmark-only with the reasons.

  moeplan contract --model qwen3-235b --gpus 256 'tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm' \\
    --variable layout.moe_token_dispatcher --base alltoall --set layout.moe_token_dispatcher=deepep > C.yaml

Exit codes: 0 done; 2 the layout breaks a rule; 3 nothing fits; 80 usage.`
}

// contractOf fills in what the plan knows: everything else is blank.
func contractOf(r *plan.Request, l *layout.Layout) *evidence.Contract {
	contract := evidence.NewContract(r.Model, l)
	h := &contract.Hardware
	h.SKU = r.Platform.ID
	if r.Platform.Node.Known {
		h.Node = r.Platform.Node.Int()
	}
	if r.Platform.Domain.Known {
		h.Domain = r.Platform.Domain.Int()
	}
	dtype := func(bf16 bool) string {
		if bf16 {
			return "bf16"
		}
		return "fp32"
	}
	contract.Workload.Grads, contract.Workload.Moments = dtype(r.BF16Gradients), dtype(r.LowPrecisionMoments)
	if r.Offload != "" {
		contract.Layout.Offload = string(r.Offload)
	}
	return contract
}

func (c *contractCmd) Run(ctx context.Context, s streams) error {
	r, l, err := c.take(ctx, s.err)
	if err != nil {
		return err
	}
	contract := contractOf(&r, &l)
	for _, set := range c.Set {
		path, value, ok := strings.Cut(set, "=")
		if !ok {
			return usage("--set %q: want FIELD=VALUE", set)
		}
		if err := contract.Set(path, value); err != nil {
			return usage("--set: %v", err)
		}
	}
	contract.Variable, contract.Base = c.Variable, c.Base
	contract.Judge()
	var text strings.Builder
	if err := evidence.WriteContract(&text, contract); err != nil {
		return err
	}
	if _, err := evidence.ReadContract("contract", strings.NewReader(text.String())); err != nil {
		return &coded{exitUsage, err}
	}
	if c.Output == "json" {
		return writeJSON(s.out, contract)
	}
	_, err = s.out.Write([]byte(text.String()))
	return err
}
