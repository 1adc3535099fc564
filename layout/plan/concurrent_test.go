package plan_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/moeplan/moeplan/layout/plan"
)

// Searches share the catalogues and, where they are told to, the schedules: many at once give what each gives alone. Run with
// -race.
func TestSearchesAtOnce(t *testing.T) {
	questions := []plan.Request{question("qwen3-30b", "h100", 32), question("qwen3-30b", "h100", 32), question("gpt-oss-20b", "b200", 16),
		question("llama3-8b", "h100", 8), question("deepseek-v2-lite", "gb200", 16)}
	questions[1].BF16Gradients, questions[1].Top = true, 3
	questions[3].Pareto = true
	answer := func(r plan.Request) string {
		result, err := plan.Search(context.Background(), r)
		if err != nil {
			t.Error(err)
			return ""
		}
		result.Searched.Seconds = 0
		text, err := json.Marshal(result)
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	alone := make([]string, len(questions))
	for i, q := range questions {
		alone[i] = answer(q)
	}
	var wg sync.WaitGroup
	together := make([]plan.Request, len(questions))
	for i := range questions {
		together[i] = questions[i].Together()
	}
	for _, asked := range [][]plan.Request{questions, together, together} {
		for i, q := range asked {
			wg.Go(func() {
				if got := answer(q); got != alone[i] {
					t.Errorf("question %d has another answer beside others", i)
				}
			})
		}
	}
	wg.Wait()
}
