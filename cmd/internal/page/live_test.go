package page_test

import (
	"context"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/moeplan/moeplan/cmd/internal/live"
	"github.com/moeplan/moeplan/cmd/internal/page"
	"github.com/moeplan/moeplan/layout/plan"
)

// TestLive changes the question in a real browser, which enforces the content policy and reports what breaks it.
func TestLive(t *testing.T) {
	s := live.Server{
		Fields: []live.Field{{Name: "gpus", Label: "GPUs", Default: "32", Number: true}},
		Ask: func(_ context.Context, q url.Values) (*page.Answer, error) {
			n, err := strconv.Atoi(q.Get("gpus"))
			if err != nil {
				return nil, err
			}
			return ask(t, "qwen3-30b", "h100", n, func(r *plan.Request) { r.Top = 2 }), nil
		},
	}
	server := httptest.NewServer(s.Handler(true))
	defer server.Close()
	b := open(t, server.URL, 1600, 1000)
	settled := func(what, expression string) {
		t.Helper()
		for start := time.Now(); time.Since(start) < patience; time.Sleep(50 * time.Millisecond) {
			if value[bool](t, b, expression) {
				return
			}
		}
		t.Errorf("never: %s", what)
	}
	settled("the first answer", `document.querySelector("h1").textContent.includes("on 32 H100")`)
	b.do(t, chromedp.Click(chromedp.CSS(`#plans tr[data-plan="plan-2"] td`)))
	value[bool](t, b, `(document.querySelector('[name="gpus"]').select(), true)`)
	b.do(t, chromedp.KeyEvent("64"))
	settled("the answer to the changed question", `document.querySelector("h1").textContent.includes("on 64 H100")`)
	settled("the address is that of the question", `location.search === "?gpus=64"`)
	settled("the plan stays chosen", `document.querySelector("#plan-2").classList.contains("selected")`)
	settled("the theme's button works on the new answer", `(document.querySelector("#theme").click(), document.documentElement.dataset.theme === "light")`)
	b.quiet(t)
	value[bool](t, b, `(document.querySelector('[name="gpus"]').select(), true)`)
	b.do(t, chromedp.KeyEvent("x"))
	settled("an error in words", `document.querySelector("#said").textContent.includes("invalid syntax")`)
	settled("the last answer is still there", `document.querySelector("h1").textContent.includes("on 64 H100")`)
}
