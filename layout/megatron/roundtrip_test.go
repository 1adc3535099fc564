package megatron

import (
	"fmt"
	"testing"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"pgregory.net/rapid"
)

// readsBack reads a command line and says what of model and layout it gives differently.
func readsBack(argv []string, m *arch.Model, l *layout.Layout) error {
	s, err := Parse(argv, Main)
	if err != nil {
		return err
	}
	r, err := Resolve(s, l.World, nil)
	if err != nil {
		return err
	}
	gotModel, err := Model(r)
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	except := []string{"MaxPositionEmbeddings"} // written as the sequence where that is longer
	for _, u := range unsaid {
		if u.model == m.ID {
			except = append(except, u.field)
		}
	}
	if err := equalShapes(m, gotModel, except...); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	again, err := Training(l, gotModel) // the model that was read can be written again
	if err != nil {
		return fmt.Errorf("written again: %w", err)
	}
	if _, err := Parse(again.Argv(), Main); err != nil {
		return fmt.Errorf("written again: %w", err)
	}
	got, err := Layout(r)
	if err != nil {
		return fmt.Errorf("layout: %w", err)
	}
	if !got.Split.Equal(l.Split) {
		return fmt.Errorf("split %s, written %s", got.Split, l.Split)
	}
	want := *l
	got.Split, want.Split = nil, nil
	if got != want {
		return fmt.Errorf("layout %+v, written %+v", got, want)
	}
	return nil
}

// Every catalogue model in every layout of the table is read back from what is written of it.
func TestWrittenIsReadBack(t *testing.T) {
	n := eachCommand(t, func(t *testing.T, m *arch.Model, l *layout.Layout, c *Command) {
		args, err := Training(l, m)
		if err != nil {
			t.Fatal(err)
		}
		if err := readsBack(args.Argv(), m, l); err != nil {
			t.Error(err)
		}
	})
	t.Logf("%d commands", n)
}

// Random legal layouts are read back from what is written of them.
func TestRandomWrittenIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(arch.All()).Draw(t, "model")
		power := func(most int, what string) int { return 1 << rapid.IntRange(0, most).Draw(t, what) }
		l := layout.Layout{Degrees: folding.Degrees{TP: power(3, "tp"), CP: power(2, "cp"), PP: power(4, "pp"), EP: 1}, VPP: 1,
			MicroBatchSize: power(2, "mbs"), SeqLength: 4096 * power(3, "seq")}
		l.ETP = l.TP
		dp := power(4, "dp")
		l.World = l.TP * l.CP * l.PP * dp
		if m.MoE != nil {
			l.EP, l.ETP = power(5, "ep"), power(1, "etp")
			l.Dispatcher = layout.Dispatcher(rapid.IntRange(0, 3).Draw(t, "dispatcher"))
		}
		if l.PP > 1 {
			l.VPP = rapid.IntRange(1, 4).Draw(t, "vpp")
		}
		l.SequenceParallel = l.TP > 1
		l.GlobalBatchSize = l.MicroBatchSize * dp * l.PP * power(4, "m")
		l.Precision = layout.Precision(rapid.IntRange(0, 5).Draw(t, "precision"))
		switch rapid.IntRange(0, 2).Draw(t, "recompute") {
		case 1:
			l.Recompute = layout.SelectiveRecompute(layout.Modules(rapid.IntRange(1, 127).Draw(t, "modules")))
		case 2:
			l.Recompute = layout.Recompute{Granularity: layout.Full, Block: rapid.Bool().Draw(t, "block"), NumLayers: rapid.IntRange(1, 4).Draw(t, "layers")}
		}
		if l.Split = layout.BalancedSplit(m, l.PP, l.VPP); l.Split == nil || rapid.Bool().Draw(t, "even") {
			if even := layout.EvenSplit(m, l.PP, l.VPP); even != nil {
				l.Split = even
			}
		}
		if l.Split == nil || !layout.Check(m, &l).Legal() {
			t.Skip("not legal")
		}
		args, err := Training(&l, m)
		if err != nil {
			t.Fatal(err)
		}
		if err := readsBack(args.Argv(), m, &l); err != nil {
			t.Fatalf("%s, %s: %v\n%q", m.ID, l, err, args.Argv())
		}
	})
}
