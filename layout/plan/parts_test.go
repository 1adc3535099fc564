package plan_test

import (
	"context"
	"math"
	"testing"

	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/topology"
)

// TestTimePartsAddUp: whoever draws the parts as one bar must not draw another step time.
func TestTimePartsAddUp(t *testing.T) {
	model, err := arch.Lookup("qwen3-30b")
	if err != nil {
		t.Fatal(err)
	}
	platform, err := topology.LookupPlatform("h100")
	if err != nil {
		t.Fatal(err)
	}
	result, err := plan.Search(context.Background(), plan.Request{Model: model, Platform: platform, GPUs: 32})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Plans) == 0 {
		t.Fatal("nothing fits")
	}
	for i := range result.Plans {
		p := &result.Plans[i]
		var now, tuned float64
		for _, part := range p.TimeParts {
			now, tuned = now+part.MS, tuned+part.TunedMS
		}
		if math.Abs(now-p.StepTimeMS) > 1e-6*now || math.Abs(tuned-p.TunedTimeMS) > 1e-6*tuned {
			t.Errorf("%s: the parts are %g and %g ms, the step %g and %g", p.Key, now, tuned, p.StepTimeMS, p.TunedTimeMS)
		}
	}
}
