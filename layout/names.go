package layout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Names of the enumerations, in the order of their constants. They are what String prints and Parse reads.
var (
	precisionNames  = []string{"bf16", "fp16", "fp8-tensorwise", "fp8-blockwise", "mxfp8", "nvfp4"}
	dispatcherNames = []string{"alltoall", "allgather", "deepep", "hybridep"}
	// moduleNames are upstream's names of --recompute-modules, in the order of the Modules bits.
	moduleNames = []string{"core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts"}
)

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown-" + strconv.Itoa(i)
}

// String returns the name that ParsePrecision reads, such as "bf16" or "mxfp8".
func (p Precision) String() string { return nameOf(precisionNames, int(p)) }

// String returns the name that ParseDispatcher reads: alltoall, allgather, deepep or hybridep. The last two are
// --moe-token-dispatcher-type flex with that --moe-flex-dispatcher-backend.
func (d Dispatcher) String() string { return nameOf(dispatcherNames, int(d)) }

// Flex reports whether the dispatcher is one of upstream's flex backends.
func (d Dispatcher) Flex() bool { return d == DeepEP || d == HybridEP }

// String lists the modules by upstream's names in a fixed order, joined by commas; "" for the empty set.
func (s Modules) String() string { return string(s.appendText(nil)) }

func (s Modules) appendText(b []byte) []byte {
	start := len(b)
	for i, name := range moduleNames {
		if s.Has(1 << i) {
			if len(b) > start {
				b = append(b, ',')
			}
			b = append(b, name...)
		}
	}
	return b
}

// String returns the text form that ParseRecompute reads: "none"; the modules of selective recompute such as
// "moe_act,layernorm" ("selective" if the set is empty); "full" for one layer per checkpoint, else
// "full:uniform:4" or "full:block:4".
func (r Recompute) String() string { return string(r.appendText(nil)) }

func (r Recompute) appendText(b []byte) []byte {
	switch r.Granularity {
	case Selective:
		if r.Modules == 0 {
			return append(b, "selective"...)
		}
		return r.Modules.appendText(b)
	case Full:
		b = append(b, "full"...)
		if r.Block {
			b = append(b, ":block:"...)
		} else if r.NumLayers != 1 {
			b = append(b, ":uniform:"...)
		} else {
			return b
		}
		return strconv.AppendInt(b, int64(r.NumLayers), 10)
	}
	return append(b, "none"...)
}

// ParsePrecision reads a Precision's name.
func ParsePrecision(text string) (Precision, error) {
	i, err := parseName("precision", text, precisionNames)
	return Precision(i), err
}

// ParseDispatcher reads a Dispatcher's name.
func ParseDispatcher(text string) (Dispatcher, error) {
	i, err := parseName("dispatcher", text, dispatcherNames)
	return Dispatcher(i), err
}

// ParseRecompute reads what Recompute.String writes. "selective" alone means upstream's default modules, core_attn.
// Module names may come in any order; repeated ones count once.
func ParseRecompute(text string) (Recompute, error) {
	switch text {
	case "none":
		return Recompute{}, nil
	case "selective":
		return Recompute{Granularity: Selective, Modules: CoreAttn}, nil
	case "full":
		return FullRecompute, nil
	}
	if rest, ok := strings.CutPrefix(text, "full:"); ok {
		method, layers, _ := strings.Cut(rest, ":")
		if method != "uniform" && method != "block" {
			return Recompute{}, fmt.Errorf("recompute method %q: want full:uniform:N or full:block:N", clip(method))
		}
		n, err := parseSize("recompute layers", layers)
		if err != nil {
			return Recompute{}, err
		}
		return Recompute{Granularity: Full, Block: method == "block", NumLayers: n}, nil
	}
	r := Recompute{Granularity: Selective}
	for name := range strings.SplitSeq(text, ",") {
		i, err := parseName("recompute module", name, moduleNames, "none", "full", "selective")
		if err != nil {
			return Recompute{}, err
		}
		if i >= len(moduleNames) {
			return Recompute{}, fmt.Errorf("recompute %q: %s stands alone, without modules", clip(text), name)
		}
		r.Modules |= 1 << i
	}
	return r, nil
}

// FullRecompute is --recompute-granularity full with one layer per checkpoint.
var FullRecompute = Recompute{Granularity: Full, NumLayers: 1}

// SelectiveRecompute recomputes the given modules.
func SelectiveRecompute(m Modules) Recompute { return Recompute{Granularity: Selective, Modules: m} }

// parseName finds text among names (and then more) or says which of them is nearest.
func parseName(what, text string, names []string, more ...string) (int, error) {
	all := slices.Concat(names, more)
	if i := slices.Index(all, text); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("unknown %s %q%s; known: %s", what, clip(text), didYouMean(text, all), strings.Join(all, " "))
}
