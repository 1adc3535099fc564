package layout

import "testing"

func TestAre(t *testing.T) {
	for _, c := range []struct {
		n    int
		noun string
		want string
	}{{1, "GPU", "1 GPU is"}, {2, "GPU", "2 GPUs are"}, {0, "layer", "0 layers are"}, {3, "micro-batch", "3 micro-batches are"}} {
		if got := Are(c.n, c.noun); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
