package megatron

import (
	"fmt"
	"strings"

	"github.com/moeplan/moeplan/layout"
)

// unevenRules are the config's checks of everything that makes stages unequal: a layout string, counts for the first and
// last stage, embedding and loss counted as layers.
var unevenRules = []rule{
	{
		Rule: head("counts-exclude-accounting", "49", inConfig, 2235, "counts for the first or last stage exclude counting embedding or loss",
			"Both say how many layers the ends hold."),
		broken: func(c *launch) bool { return c.uneven() && c.accounted() },
		say:    func(c *launch) string { return c.countsText() + " with --account-for-*" },
		turn: []string{"--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split", "--decoder-first-pipeline-num-layers",
			"--decoder-last-pipeline-num-layers"},
	},
	{
		Rule: head("layout-excludes-counts", "50", inConfig, 2252, "a layout string excludes counts and accounting",
			"It already says what each stage holds."),
		broken: func(c *launch) bool { return c.layoutGiven() && (c.uneven() || c.accounted()) },
		say: func(c *launch) string {
			if c.uneven() {
				return layoutFlag + " with " + c.countsText()
			}
			return layoutFlag + " with --account-for-*"
		},
		turn: []string{"--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers", "--account-for-embedding-in-pipeline-split",
			"--account-for-loss-in-pipeline-split", layoutFlag},
	},
	textLine("split-ends", endsLine),
	textLine("split-layer-count", func(c *launch) string {
		if c.layoutCount("t") != c.Shape.NumLayers {
			return inLayout + "107"
		}
		return inLayout + "112"
	}, "--num-layers", "--mtp-num-layers"),
	inText("split-mtp-after-decoders", layoutFlag),
	textLine("split-mtp-chunk", func(c *launch) string {
		if c.mtpEarly() {
			return inLayout + "124"
		}
		return inLayout + "130"
	}),
	{
		Rule: headAt("split-mtp-unsupported", "64", layout.Error, layout.AtConfig, inLayout[:len(inLayout)-1]+":111 (core_v0.13.1)", "in 0.13 a layout string holds no m",
			"MTP layers in a layout came with 0.14. Without an m they are left out without a word."),
		until:  "0.13.1",
		broken: func(c *launch) bool { return c.layoutGiven() && c.layoutCount("m") > 0 },
		say: func(c *launch) string {
			return fmt.Sprintf("%d m in the layout string in release %s", c.layoutCount("m"), c.rel)
		},
		turn: []string{layoutFlag},
	},
	{
		Rule: headAt("split-mtp-with-loss", "67", layout.Error, layout.AtConfig, inLayout[:len(inLayout)-1]+":130 (core_v0.15.3)", "in 0.15 MTP sits on the stage of the loss",
			"Standalone MTP stages came with 0.16."),
		since: "0.15.3", until: "0.15.3",
		broken: func(c *launch) bool {
			s := c.l.Split
			return c.layoutGiven() && s != nil && c.layoutCount("m") > 0 && s.Cells[len(s.Cells)-1].MTP == 0
		},
		say:  says("the layout string has its MTP layers on another stage than the loss"),
		turn: []string{layoutFlag},
	},
	endCount("first-stage-positive", 2304, "the first stage holds at least one layer", true,
		func(_ *launch, n int) bool { return n <= 0 }, "%s%d: at least 1 is needed"),
	endCount("vpp-divides-first-stage", 2312, "VPP divides the layers of the first stage", true, oddChunks, "%s%d is not divisible by VPP %d"),
	endCount("last-stage-positive", 2323, "the last stage holds at least one layer", false,
		func(_ *launch, n int) bool { return n <= 0 }, "%s%d: at least 1 is needed"),
	endCount("vpp-divides-last-stage", 2331, "VPP divides the layers of the last stage", false, oddChunks, "%s%d is not divisible by VPP %d"),
	{
		Rule: head("middle-layers-and-stages", "48", inConfig, 2342, "layers are left over exactly if stages are",
			"What the first and last stage do not hold goes to the stages between them."),
		since: "0.16.1",
		broken: func(c *launch) bool {
			layers, stages := c.middle()
			return c.countsDecide() && (layers != 0) != (stages != 0)
		},
		say: func(c *launch) string {
			layers, stages := c.middle()
			return fmt.Sprintf("%s leave %s for %s", c.countsText(), layout.Count(layers, "layer"), layout.Count(stages, "stage"))
		},
		turn: []string{"--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers", "--pipeline-model-parallel-size", "--num-layers"},
	},
	{
		Rule: headAt("middle-stages", "48", layout.Error, layout.AtConfig, "megatron/core/transformer/transformer_config.py:824 (core_v0.12.3)", "up to 0.12 stages are left between the first and the last",
			"The division by their number comes before anything looks at it."),
		until:  "0.12.3",
		broken: func(c *launch) bool { _, stages := c.middle(); return c.countsDecide() && stages == 0 },
		say:    func(c *launch) string { return fmt.Sprintf("%s at PP %d leave no stage", c.countsText(), c.Degrees.PP) },
		turn:   []string{"--decoder-last-pipeline-num-layers", "--decoder-first-pipeline-num-layers", "--pipeline-model-parallel-size"},
	},
	{
		Rule: head("middle-layers-divide", "48", inConfig, 2350, "the stages between divide the layers between",
			"They hold equal numbers."),
		broken: func(c *launch) bool {
			layers, stages := c.middle()
			return c.countsDecide() && stages != 0 && layers%stages != 0
		},
		say: func(c *launch) string {
			layers, stages := c.middle()
			return fmt.Sprintf("%s leave %s for %s (%d %% %d = %d)", c.countsText(), layout.Count(layers, "layer"), layout.Count(stages, "stage"), layers, stages, layers%stages)
		},
		turn: []string{"--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers", "--pipeline-model-parallel-size"},
	},
	{
		Rule: head("vpp-divides-middle", "48", inConfig, 2364, "VPP divides the layers of a stage between",
			"Every rank holds whole chunks."),
		broken: func(c *launch) bool {
			layers, stages := c.middle()
			vpp, set := c.vpp()
			return c.countsDecide() && set && stages != 0 && layers%stages == 0 && layers/stages%vpp != 0
		},
		say: func(c *launch) string {
			layers, stages := c.middle()
			return fmt.Sprintf("%s / %s = %d, not divisible by VPP %d", layout.Count(layers, "layer"), layout.Count(stages, "stage"), layers/stages, c.Pipeline.VPP)
		},
		turn: []string{virtualStagesFlag, "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"},
	},
	{
		Rule: head("accounted-pp", "44", inConfig, 2396, "PP divides the layers, embedding and loss counted where asked for",
			"A number of virtual stages keeps the argument check from looking, so the config does."),
		broken: func(c *launch) bool { return c.accountingDecides() && c.counted()%c.Degrees.PP != 0 },
		say:    sayCounted,
		turn:   []string{"--pipeline-model-parallel-size", "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split", "BALANCED"},
		line: func(c *launch) string {
			if _, set := c.vpp(); !set {
				return inConfig + "2383"
			}
			return inConfig + "2396"
		},
	},
	{
		Rule: head("accounted-vpp", "47", inConfig, 2409, "VPP divides the layers of a rank, embedding and loss counted where asked for",
			"Every rank holds whole chunks."),
		broken: func(c *launch) bool {
			vpp, set := c.vpp()
			return c.accountingDecides() && set && c.counted()%c.Degrees.PP == 0 && c.counted()/c.Degrees.PP%vpp != 0
		},
		say: func(c *launch) string {
			return fmt.Sprintf("%s (embedding and loss counted) / PP %d = %d, not divisible by VPP %d", layout.Count(c.counted(), "layer"), c.Degrees.PP,
				c.counted()/c.Degrees.PP, c.Pipeline.VPP)
		},
		turn: []string{virtualStagesFlag, perStageFlag, "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"},
	},
}

// textLine is inText for a rule with several lines.
func textLine(id layout.RuleID, line func(c *launch) string, turn ...string) rule {
	r := inText(id, append([]string{layoutFlag}, turn...)...)
	r.line = line
	return r
}

// endCount is a rule about the count of one end.
func endCount(id layout.RuleID, line int, title string, first bool, wrong func(c *launch, n int) bool, format string) rule {
	flag := "--decoder-last-pipeline-num-layers"
	if first {
		flag = "--decoder-first-pipeline-num-layers"
	}
	count := func(c *launch) *int {
		if first {
			return c.Pipeline.First
		}
		return c.Pipeline.Last
	}
	return rule{
		Rule: head(id, "48", inConfig, line, title, "An end with its own count is a stage like any other: whole chunks, at least one layer."),
		broken: func(c *launch) bool {
			n := count(c)
			return c.countsDecide() && n != nil && wrong(c, *n)
		},
		say: func(c *launch) string {
			if n := *count(c); n > 0 {
				return fmt.Sprintf(format, flag+" ", n, c.Pipeline.VPP)
			}
			return fmt.Sprintf("%s %d: at least 1 is needed", flag, *count(c))
		},
		turn: []string{flag, virtualStagesFlag},
	}
}

func oddChunks(c *launch, n int) bool { vpp, set := c.vpp(); return set && n%vpp != 0 }

// countsDecide reports whether the config looks at the counts of the ends, and accountingDecides at embedding and loss.
func (c *launch) countsDecide() bool      { return c.uneven() && !c.layoutGiven() }
func (c *launch) accountingDecides() bool { return c.accounted() && !c.uneven() && !c.layoutGiven() }

// middle returns what the ends leave over, layers and stages.
func (c *launch) middle() (layers, stages int) {
	layers, stages = c.Shape.NumLayers, c.Degrees.PP
	for _, n := range []*int{c.Pipeline.First, c.Pipeline.Last} {
		if n != nil {
			layers -= *n
			stages--
		}
	}
	return layers, stages
}

func (c *launch) countsText() string {
	switch p := &c.Pipeline; {
	case p.First != nil && p.Last != nil:
		return fmt.Sprintf("%d layers on the first and %d on the last stage", *p.First, *p.Last)
	case p.First != nil:
		return fmt.Sprintf("%d layers on the first stage", *p.First)
	case p.Last != nil:
		return fmt.Sprintf("%d layers on the last stage", *p.Last)
	}
	return "no counts"
}

// layoutCount counts one symbol of the layout string.
func (c *launch) layoutCount(symbol string) int { return strings.Count(c.symbols, symbol) }

// endsLine is the line that finds fault with E or L.
func endsLine(c *launch) string {
	switch flat := strings.ReplaceAll(c.symbols, "|", ""); {
	case !strings.HasPrefix(flat, "E"):
		return inLayout + "96"
	case !strings.HasSuffix(flat, "L"):
		return inLayout + "99"
	case strings.Count(flat, "E") != 1:
		return inLayout + "104"
	}
	return inLayout + "106"
}

// mtpEarly reports whether an m stands in another than the last chunk of its rank.
func (c *launch) mtpEarly() bool {
	stages := strings.Split(c.symbols, "|")
	return strings.Contains(strings.Join(stages[:max(0, len(stages)-c.Degrees.PP)], ""), "m")
}
