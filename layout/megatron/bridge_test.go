package megatron

import (
	"strings"
	"testing"

	"github.com/moeplan/moeplan/folding"
)

// TestBridgeOrder: Bridge has one other rank order than Megatron's own, and a switch for it
// (NVIDIA-NeMo/Megatron-Bridge docs/megatron-lm-to-megatron-bridge.md: --use-tp-pp-dp-mapping).
func TestBridgeOrder(t *testing.T) {
	const mapping = "dist.use_tp_pp_dp_mapping=true"
	for _, c := range []struct {
		reason           string
		order            folding.Order
		mapped, rejected bool
	}{
		{"Megatron's own, not written out", "", false, false},
		{"the same written out", folding.DefaultOrder, false, false},
		{"the one that the switch makes", folding.TPPPDPOrder, true, false},
		{"no switch makes it", "cp-tp-ep-dp-pp", false, true},
	} {
		l, m := qwen235(t)
		l.Order = c.order
		b, err := BridgeOverrides(l, m, LaunchOptions{})
		if c.rejected {
			if err == nil || !strings.Contains(err.Error(), string(c.order)) {
				t.Errorf("%s: %v does not name %s", c.reason, err, c.order)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.reason, err)
			continue
		}
		if text := b.Text(); strings.Contains(text, mapping) != c.mapped || strings.Contains(text, "rank order") {
			t.Errorf("%s: mapping wanted: %t\n%s", c.reason, c.mapped, text)
		}
	}
}

// TestLauncherIsOneWord: the Slurm script hands the launcher to a shell inside quotes, so a name that a shell would read as
// anything else is refused; a model that somebody wrote down may name one.
func TestLauncherIsOneWord(t *testing.T) {
	for _, c := range []struct {
		reason, launcher string
		refused          bool
	}{
		{"Megatron-LM's own", "pretrain_gpt.py", false},
		{"one of the user's", "examples/own/pretrain-2.py", false},
		{"a quote ends the quotes", "a'; touch /tmp/x; '.py", true},
		{"a blank makes two words", "two words.py", true},
	} {
		l, m := qwen235(t)
		named := *m
		named.Launcher = c.launcher
		if _, err := Launch(l, &named, LaunchOptions{GPUsPerNode: 8, Slurm: true}); (err != nil) != c.refused {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
}
