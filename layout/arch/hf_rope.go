package arch

import (
	"encoding/json"
	"strconv"
)

// hfRope is how positions are rotated: no shape, but part of the command line.
type hfRope struct {
	base          float64
	percent       float64
	kind          string // "", llama3, yarn, linear, ...
	factor        float64
	original      float64
	fast, slow    float64
	mscale        float64
	mscaleAll     float64
	noTruncate    bool
	given, scaled bool
}

// readRope reads rope_theta, partial_rotary_factor and rope_scaling, or rope_parameters, where Transformers 5 keeps all of
// them. null is "no scaling".
func (c *hfConfig) readRope() {
	r := hfRope{percent: 1, factor: 1}
	r.percent = c.float("rotary_percent", 1, "partial_rotary_factor")
	if v, _, ok := c.first("rope_theta"); ok {
		r.base, r.given = c.float("rotary_base", 0, "rope_theta"), v != nil
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
		c.note(full, v, "positions")
		get := func(name string, missing float64) float64 {
			n, ok := group[name].(json.Number)
			if !ok {
				return missing
			}
			f, err := n.Float64()
			if err != nil {
				return missing
			}
			return f
		}
		if b := get("rope_theta", 0); b > 0 {
			r.base, r.given = b, true
		}
		r.percent = get("partial_rotary_factor", r.percent)
		kind, _ := group["rope_type"].(string)
		if old, ok := group["type"].(string); kind == "" && ok {
			kind = old
		}
		if kind != "" && kind != "default" && kind != "mrope" {
			r.kind, r.scaled = kind, true
			r.factor = get("factor", 1)
			r.original = get("original_max_position_embeddings", 0)
			r.fast, r.slow = get("beta_fast", 32), get("beta_slow", 1)
			r.mscale, r.mscaleAll = get("mscale", 1), get("mscale_all_dim", 0)
			truncate, isBool := group["truncate"].(bool)
			r.noTruncate = isBool && !truncate
		}
	}
	c.rope = r
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
