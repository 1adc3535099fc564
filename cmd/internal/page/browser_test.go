package page_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is a page in a real browser, with everything that its console complained about.
type tab struct {
	ctx    context.Context
	mu     sync.Mutex
	errors []string
}

// patience is how long a step may take on a busy machine.
const patience = 30 * time.Second

// browser finds Chromium, or skips: MOEPLAN_BROWSER is its path, or "required" where its absence is a failure.
func browser(t *testing.T) string {
	t.Helper()
	wanted := os.Getenv("MOEPLAN_BROWSER")
	for _, name := range []string{wanted, "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	if wanted != "" {
		t.Fatalf("MOEPLAN_BROWSER=%s, and no Chromium was found", wanted)
	}
	t.Skip("no Chromium: install the package chromium, or set MOEPLAN_BROWSER to its path; MOEPLAN_BROWSER=required fails instead")
	return ""
}

// open shows an address in a window of a size, after the given steps.
func open(t *testing.T, address string, width, height int64, first ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	allocator, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(browser(t)), chromedp.NoSandbox, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-dev-shm-usage", true))...)
	t.Cleanup(stop)
	ctx, done := chromedp.NewContext(allocator)
	t.Cleanup(done)
	b := &tab{ctx: ctx}
	// The first call starts the browser, which lives as long as its context.
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height)); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	b.do(t, append(first, chromedp.Navigate(address))...)
	return b
}

func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		if e.Type != runtime.ConsoleAPICalledTypeLog {
			b.errors = append(b.errors, "console."+string(e.Type))
		}
	case *log.EventEntryAdded:
		b.errors = append(b.errors, e.Entry.Text)
	}
}

func (b *tab) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	for i, step := range steps { // each for itself: an element that never appears would be waited for without end
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		err := chromedp.Do(ctx, step)
		cancel()
		if err != nil {
			t.Fatalf("step %d: %v", i+1, err)
		}
	}
}

// value evaluates an expression.
func value[T any](t *testing.T, b *tab, expression string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return out
}

// quiet fails if the console complained.
func (b *tab) quiet(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.errors) > 0 {
		t.Errorf("the console says:\n%s", strings.Join(b.errors, "\n"))
	}
}

// theme makes the system prefer one.
func theme(name string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return err
	})
}

// noScript switches JavaScript off.
func noScript() chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	})
}

// fileURL is the address of a file.
func fileURL(t *testing.T, file string) string {
	t.Helper()
	absolute, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	return "file://" + filepath.ToSlash(absolute)
}

// TestPictures writes screenshots of the given reports for people to look at:
//
//	MOEPLAN_SHOTS=/tmp/shots MOEPLAN_REPORTS=a.html,b.html go test ./cmd/internal/page -run Pictures
func TestPictures(t *testing.T) {
	dir, reports := os.Getenv("MOEPLAN_SHOTS"), os.Getenv("MOEPLAN_REPORTS")
	if dir == "" || reports == "" {
		t.Skip("MOEPLAN_SHOTS and MOEPLAN_REPORTS are not set: pictures are for people")
	}
	for file := range strings.SplitSeq(reports, ",") {
		for _, size := range []struct {
			name          string
			width, height int64
		}{{"phone", 390, 844}, {"desk", 1600, 1000}} {
			for _, name := range []string{"light", "dark"} {
				b := open(t, fileURL(t, file), size.width, size.height, theme(name))
				b.do(t, chromedp.Sleep(200*time.Millisecond))
				shot, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
				if err != nil {
					t.Fatal(err)
				}
				name := strings.TrimSuffix(filepath.Base(file), ".html") + "-" + size.name + "-" + name + ".png"
				if err := os.WriteFile(filepath.Join(dir, name), shot, 0o644); err != nil {
					t.Fatal(err)
				}
				b.quiet(t)
			}
		}
	}
}

// TestBrowser holds the page against a real browser.
func TestBrowser(t *testing.T) {
	b := open(t, fileURL(t, saved(t)), 1600, 1000)
	shown := `[...document.querySelectorAll(".plan")].filter(x => x.offsetHeight > 0).map(x => x.id).join()`
	want := func(what, expression, want string) {
		t.Helper()
		if got := value[string](t, b, expression); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	rows := `[...document.querySelectorAll("#plans tbody tr")].filter(x => x.offsetHeight > 0)`

	want("the first plan is shown", shown, "plan-1")
	want("nothing is wider than the window", `String(document.documentElement.scrollWidth <= innerWidth)`, "true")
	want("pictures have a size", `String([...document.querySelectorAll(".plan.first svg:not(.defs)")].every(x => x.clientWidth > 0 && x.clientHeight > 0))`, "true")

	row := `document.querySelector('#plans tr[data-plan="plan-3"]')`
	value[bool](t, b, `(`+row+`.scrollIntoView({block: "center"}), true)`)
	top := value[float64](t, b, row+`.getBoundingClientRect().top`)
	b.do(t, chromedp.Click(chromedp.CSS(`#plans tr[data-plan="plan-3"] td`)))
	if now := value[float64](t, b, row+`.getBoundingClientRect().top`); math.Abs(now-top) > 2 {
		t.Errorf("the row that was clicked jumps by %g pixels", now-top)
	}
	want("a click on a row selects", shown, "plan-3")
	want("the address says so", `location.hash`, "#plan-3")
	want("the point is marked", `document.querySelector(".point.selected").dataset.plan`, "plan-3")
	// Of the front's own plans the last has most memory free, so that no other point lies over it.
	last := value[string](t, b, `[...document.querySelectorAll("#plans tbody tr")].at(-1).dataset.plan`)
	place := value[[]float64](t, b, `(() => { const p = document.querySelector('.point[data-plan="`+last+`"] .dot'); p.scrollIntoView({block: "center"}); const r = p.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()`)
	b.do(t, chromedp.MouseClickXY(place[0], place[1]))
	want("a click on a point selects", shown, last)
	value[bool](t, b, `document.querySelector('.point[data-plan="plan-2"]').focus() === undefined`)
	want("focus says what a point is", `String(!document.querySelector("#tip").hidden && document.querySelector("#tip").textContent.startsWith("Plan 2:"))`, "true")
	b.do(t, chromedp.KeyEvent("\r"))
	want("the keyboard selects", shown, "plan-2")

	total := value[int](t, b, rows+`.length`)
	b.do(t, chromedp.SendKeys(chromedp.CSS(`#filter`), "tp1 ep>=16"))
	if n := value[int](t, b, rows+`.length`); n == total || n == 0 {
		t.Errorf("the filter leaves %d of %d rows", n, total)
	}
	want("the filter keeps what meets it", `String(`+rows+`.every(x => x.cells[1].textContent === "1" && Number(x.cells[6].textContent) >= 16))`, "true")
	b.do(t, chromedp.SendKeys(chromedp.CSS(`#filter`), " nosuchthing"))
	want("the filter says how many are left", `document.querySelector("#matches").textContent.split(" ")[0]`, "0")
	// A word that every JavaScript object knows is text like any other, and no column.
	value[bool](t, b, `(() => { const f = document.querySelector("#filter"); f.value = "constructor=1"; document.querySelector("#matches").textContent = "?"; return f.dispatchEvent(new Event("input", {bubbles: true})); })()`)
	want("the filter takes any word", `document.querySelector("#matches").textContent.split(" ")[0]`, "0")
	value[bool](t, b, `(() => { const f = document.querySelector("#filter"); f.value = ""; return f.dispatchEvent(new Event("input", {bubbles: true})); })()`)
	if n := value[int](t, b, rows+`.length`); n != total {
		t.Errorf("an empty filter leaves %d of %d rows", n, total)
	}

	b.do(t, chromedp.Click(chromedp.CSS(`th[data-key="free"] button`)))
	sorted := `(() => { const x = ` + rows + `.map(x => Number(x.cells[12].dataset.sort)); return x.every((v, i) => i === 0 || %s); })()`
	if !value[bool](t, b, strings.ReplaceAll(sorted, "%s", "x[i-1] <= v")) {
		t.Error("a click on a head does not sort")
	}
	b.do(t, chromedp.Click(chromedp.CSS(`th[data-key="free"] button`)))
	if !value[bool](t, b, strings.ReplaceAll(sorted, "%s", "x[i-1] >= v")) {
		t.Error("a second click does not sort the other way")
	}

	paper := `getComputedStyle(document.documentElement).backgroundColor`
	light := value[string](t, b, paper)
	b.do(t, chromedp.Click(chromedp.CSS(`#theme`)), chromedp.Click(chromedp.CSS(`#theme`)))
	if dark := value[string](t, b, paper); dark == light {
		t.Error("the toggle does not make it dark")
	}
	b.do(t, chromedp.Click(chromedp.CSS(`#answer .copy`)))
	b.do(t, chromedp.Sleep(100*time.Millisecond))
	if said := value[string](t, b, `document.querySelector("#answer .copy").textContent`); said == "Copy" {
		t.Error("the copy button does not answer")
	}
	b.quiet(t)
}

// TestPhone: nothing but the table, which scrolls by itself, is wider than a phone.
func TestPhone(t *testing.T) {
	b := open(t, fileURL(t, saved(t)), 390, 844)
	if wide := value[string](t, b, `[...document.querySelectorAll("body *")].filter(x => !x.closest(".scroll, .skip") && x.getBoundingClientRect().right > innerWidth + 1).map(x => x.tagName + "." + x.getAttribute("class")).slice(0, 5).join()`); wide != "" {
		t.Errorf("wider than the window: %s", wide)
	}
	b.quiet(t)
}

// TestWithoutScript: everything that is there to be read can be read, and plans are chosen by their links.
func TestWithoutScript(t *testing.T) {
	b := open(t, fileURL(t, saved(t)), 1600, 1000, noScript())
	visible := func(selector string) bool {
		t.Helper()
		return value[bool](t, b, fmt.Sprintf(`document.querySelector(%q).getBoundingClientRect().height > 0`, selector))
	}
	if value[bool](t, b, `document.documentElement.classList.contains("js")`) {
		t.Fatal("the script runs")
	}
	for selector, want := range map[string]bool{
		"#answer": true, "#plan-1 .memory": true, "#plan-1 .group svg": true, "#plan-1 .steps": true, ".scatter": true, "#plans": true, "#plan-2": false, ".copy": false, ".filter": false,
	} {
		if got := visible(selector); got != want {
			t.Errorf("without script %s is visible: %v", selector, got)
		}
	}
	b.do(t, chromedp.Click(chromedp.CSS(`#plans tr[data-plan="plan-2"] a`)), chromedp.Sleep(200*time.Millisecond))
	if !visible("#plan-2") || visible("#plan-1") {
		t.Error("without script a link does not choose its plan")
	}
	b.quiet(t)
}
