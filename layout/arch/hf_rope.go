package arch

import (
	"encoding/json"
	"strconv"
)

// hfRope is how positions are rotated: no shape, but part of the command line.
type hfRope struct {
	base       float64
	given      bool // the base
	percent    float64
	kind       string // "", llama3, yarn, linear, ...
	factor     float64
	original   float64
	fast, slow float64
	mscale     float64
	mscaleAll  float64
	noTruncate bool
}

// readRope reads rope_theta, partial_rotary_factor and rope_scaling, or rope_parameters, where Transformers 5 keeps all of
// them. null is "no scaling".
func (c *hfConfig) readRope() {
	c.rope = hfRope{percent: c.float("rotary_percent", 1, "partial_rotary_factor"), factor: 1}
	if _, _, ok := c.first("rope_theta"); ok {
		c.rope.base, c.rope.given = c.float("rotary_base", 0, "rope_theta"), true
	}
	for _, key := range []string{"rope_scaling", "rope_parameters"} {
		v, full, ok := c.get(key)
		if !ok {
			continue
		}
		group, isGroup := v.(map[string]any)
		if !isGroup {
			c.fail(full, "%s is not a group of settings", textOf(v))
			return
		}
		c.ropeGroup(full, group)
	}
}

// ropeGroup reads one group of settings. A kind of scaling without a flag changes no shape, so that it is left out and said to be.
func (c *hfConfig) ropeGroup(full string, group map[string]any) {
	r := &c.rope
	number := func(name string, missing float64) float64 {
		v, ok := group[name]
		if !ok || v == nil {
			return missing
		}
		n, _ := v.(json.Number)
		f, err := n.Float64()
		if err != nil {
			c.fail(full+"."+name, "%s is not a number", textOf(v))
			return missing
		}
		return f
	}
	text := func(name string) string {
		s, ok := group[name].(string)
		if v := group[name]; !ok && v != nil {
			c.fail(full+"."+name, "%s is not a text", textOf(v))
		}
		return s
	}
	if b := number("rope_theta", 0); b > 0 {
		r.base, r.given = b, true
	}
	r.percent = number("partial_rotary_factor", r.percent)
	kind := text("rope_type")
	if old := text("type"); kind == "" { // as older files call it
		kind = old
	}
	switch kind {
	case "", "default", "mrope":
		c.note(full, group, "positions")
		return
	case "yarn", "llama3":
		c.note(full, group, "positions")
	default:
		c.ignore(full, group, "no Megatron-LM flag scales positions by "+shortText(kind)+"; it changes no shape")
	}
	r.kind = kind
	r.factor = number("factor", 1)
	r.original = number("original_max_position_embeddings", 0)
	r.fast, r.slow = number("beta_fast", 32), number("beta_slow", 1)
	r.mscale, r.mscaleAll = number("mscale", 1), number("mscale_all_dim", 0)
	truncate, isBool := group["truncate"].(bool)
	r.noTruncate = isBool && !truncate
}

// flags of positions, in the order of the catalogue.
func (c *hfConfig) ropeFlags(m *Model) []string {
	r := c.rope
	var f []string
	switch {
	case m.Kind == Hybrid:
		return []string{"--position-embedding-type", "none"}
	case m.MLA != nil:
		f = []string{"--position-embedding-type", "rope"}
		if r.given {
			f = append(f, "--rotary-base", whole64(r.base))
		}
		factor, mscale, all := "1.0", "1.0", "1.0"
		if r.kind == "yarn" {
			factor, mscale, all = strconv.FormatFloat(r.factor, 'g', -1, 64), number(r.mscale), number(r.mscaleAll)
		}
		return append(f, "--rotary-scaling-factor", factor, "--mscale", mscale, "--mscale-all-dim", all)
	case r.kind == "yarn":
		f = []string{"--position-embedding-type", "yarn"}
	default:
		f = []string{"--position-embedding-type", "rope"}
	}
	if r.given {
		f = append(f, "--rotary-base", whole64(r.base), "--rotary-percent", number(r.percent))
	}
	switch r.kind {
	case "yarn":
		f = append(f, "--rotary-scaling-factor", number(r.factor))
		if r.original > 0 {
			f = append(f, "--yarn-original-max-position-embeddings", whole64(r.original))
		}
		f = append(f, "--yarn-beta-fast", number(r.fast), "--yarn-beta-slow", number(r.slow))
		if r.noTruncate {
			f = append(f, "--no-yarn-correction-range-round-to-int")
		}
	case "llama3":
		f = append(f, "--use-rope-scaling", "--rope-scaling-factor", number(r.factor))
	}
	return f
}

func whole64(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
