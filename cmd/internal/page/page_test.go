package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/html"

	"github.com/moeplan/moeplan/cmd/internal/page"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/topology"
)

// ask answers a question in a test.
func ask(t testing.TB, model, gpu string, gpus int, change func(*plan.Request)) *page.Answer {
	t.Helper()
	m, err := arch.Lookup(model)
	if err != nil {
		t.Fatal(err)
	}
	p, err := topology.LookupPlatform(gpu)
	if err != nil {
		t.Fatal(err)
	}
	r := plan.Request{Model: m, Platform: p, GPUs: gpus, Top: 5}
	if change != nil {
		change(&r)
	}
	a, err := page.Ask(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	a.Version = "moeplan in a test"
	return a
}

func written(t testing.TB, a *page.Answer) string {
	t.Helper()
	var b bytes.Buffer
	if err := page.Write(&b, a); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// small is a page that several tests look at.
var small = sync.OnceValue(func() *page.Answer {
	m, err := arch.Lookup("qwen3-30b")
	if err != nil {
		panic(err)
	}
	p, err := topology.LookupPlatform("h100")
	if err != nil {
		panic(err)
	}
	a, err := page.Ask(context.Background(), plan.Request{Model: m, Platform: p, GPUs: 32, Top: 5})
	if err != nil {
		panic(err)
	}
	a.Version = "moeplan in a test"
	return a
})

// saved writes the small page to a file.
func saved(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(name, []byte(written(t, small())), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// document parses a page and indexes it.
type document struct {
	ids   map[string]*html.Node
	nodes []*html.Node
}

func parse(t testing.TB, text string) *document {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	d := &document{ids: map[string]*html.Node{}}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		d.nodes = append(d.nodes, n)
		if id := attribute(n, "id"); id != "" {
			if d.ids[id] != nil {
				t.Errorf("two elements have the id %q", id)
			}
			d.ids[id] = n
		}
	}
	return d
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func text(n *html.Node) string {
	var b strings.Builder
	for x := range n.Descendants() {
		if x.Type == html.TextNode {
			b.WriteString(x.Data)
		}
	}
	return b.String()
}

func (d *document) tagged(tag string) (list []*html.Node) {
	for _, n := range d.nodes {
		if n.Data == tag {
			list = append(list, n)
		}
	}
	return list
}

// TestStandsAlone: a report is sent by mail and opened years later, so it must fetch nothing.
func TestStandsAlone(t *testing.T) {
	d := parse(t, written(t, small()))
	for _, n := range d.nodes {
		for _, a := range n.Attr {
			switch a.Key {
			case "src", "srcset", "action", "data", "poster", "formaction":
				t.Errorf("<%s %s=%q>: the page asks for something", n.Data, a.Key, a.Val)
			case "href":
				if !strings.HasPrefix(a.Val, "#") && a.Val != "data:," {
					t.Errorf("<%s href=%q>: the page leads out", n.Data, a.Val)
				}
			case "style":
				t.Errorf("<%s style>: a content policy would drop it", n.Data)
			}
			if strings.HasPrefix(a.Key, "on") {
				t.Errorf("<%s %s>: a content policy would drop it", n.Data, a.Key)
			}
		}
	}
	for _, n := range d.tagged("style") {
		if css := text(n); strings.Contains(css, "@import") || strings.Contains(css, "http") {
			t.Error("the style sheet fetches something")
		}
	}
}

// TestEveryLinkLands: plans are chosen by links to their sections, and pictures stand on shared grounds.
func TestEveryLinkLands(t *testing.T) {
	d := parse(t, written(t, small()))
	for _, n := range d.nodes {
		if to, ok := strings.CutPrefix(attribute(n, "href"), "#"); ok && d.ids[to] == nil {
			t.Errorf("<%s href=#%s> leads nowhere", n.Data, to)
		}
		if id := attribute(n, "aria-labelledby"); id != "" && d.ids[id] == nil {
			t.Errorf("<%s> is labelled by %q, which is not there", n.Data, id)
		}
	}
}

// TestHoldsEveryPlan: each plan has a section, a row and a point, and its key can be copied.
func TestHoldsEveryPlan(t *testing.T) {
	a := small()
	d := parse(t, written(t, a))
	shown := len(a.Result.Plans) + len(a.Front)
	if len(a.Result.Plans) != 5 || len(a.Front) == 0 {
		t.Fatalf("the question has %d plans and %d of the front: the test wants both", len(a.Result.Plans), len(a.Front))
	}
	// each plan says what the parts of its memory rest on, as moeplan mem --why does
	for _, plans := range [][]plan.Plan{a.Result.Plans, a.Front} {
		for i := range plans {
			stages := a.Stages[plans[i].Key]
			if len(stages) != len(plans[i].Stages) {
				t.Fatalf("%s: %d stages accounted for, of %d", plans[i].Key, len(stages), len(plans[i].Stages))
			}
			for j := range stages {
				sum := int64(0)
				for _, part := range stages[j].Parts {
					sum += part.Bytes
				}
				if sum != plans[i].Stages[j].Memory.PeakAllocated {
					t.Errorf("%s, stage %d: parts are %d, the peak %d", plans[i].Key, j, sum, plans[i].Stages[j].Memory.PeakAllocated)
				}
			}
		}
	}
	if n := strings.Count(written(t, a), "<summary>What each part rests on</summary>"); n != shown {
		t.Errorf("%d plans say what their memory rests on, %d are shown", n, shown)
	}
	if n := len(d.tagged("article")); n != shown {
		t.Errorf("%d sections for %d plans", n, shown)
	}
	rows, points := 0, 0
	for _, n := range d.nodes {
		if attribute(n, "data-plan") == "" {
			continue
		}
		if n.Data == "tr" {
			rows++
		} else {
			points++
		}
	}
	if rows != shown || points != shown {
		t.Errorf("%d rows and %d points for %d plans", rows, points, shown)
	}
	var data map[string]struct{ Label, Short string }
	if err := json.Unmarshal([]byte(text(d.ids["data"])), &data); err != nil || len(data) != shown {
		t.Errorf("the script's data has %d plans, %v", len(data), err)
	}
	for _, id := range []string{"plan-1", "plan-5", "plan-a"} {
		section := d.ids[id]
		if section == nil {
			t.Fatalf("no section %s", id)
		}
		for _, want := range []string{"Memory of each stage", "Where communication travels", "One step, tuned", "Step time by part", "moeplan emit --for check"} {
			if !strings.Contains(text(section), want) {
				t.Errorf("%s lacks %q", id, want)
			}
		}
	}
	best := a.Result.Plans[0].Key
	copied := false
	for _, n := range d.nodes {
		copied = copied || attribute(n, "data-copy") == best
	}
	if !copied {
		t.Errorf("the best layout %s has no button that copies it", best)
	}
}

// TestPicturesAreDescribed: a picture without words says nothing to a screen reader.
func TestPicturesAreDescribed(t *testing.T) {
	for _, n := range parse(t, written(t, small())).tagged("svg") {
		hidden := false
		for x := n; x != nil; x = x.Parent {
			hidden = hidden || attribute(x, "aria-hidden") == "true"
		}
		if !hidden && attribute(n, "aria-label") == "" {
			t.Errorf("<svg class=%q> has neither a label nor aria-hidden", attribute(n, "class"))
		}
	}
}

// TestNothingFits: the page of a question without an answer says what would change that.
func TestNothingFits(t *testing.T) {
	a := ask(t, "deepseek-v3", "h100", 16, nil)
	if len(a.Result.Plans) > 0 {
		t.Fatal("deepseek-v3 fits on 16 H100")
	}
	body := text(parse(t, written(t, a)).ids["answer"])
	for _, want := range []string{"Nothing fits", "over the limit", "Ways out"} {
		if !strings.Contains(body, want) {
			t.Errorf("the answer lacks %q:\n%s", want, body)
		}
	}
}

// TestDense: a dense model has no MoE mesh, and its table says so.
func TestDense(t *testing.T) {
	a := ask(t, "llama3-8b", "h100", 8, nil)
	page := written(t, a)
	if strings.Contains(page, "MoE mesh") {
		t.Error("a dense model has a MoE mesh")
	}
	parse(t, page)
}

// TestEscapes: names come from people's files, and the page from strangers.
func TestEscapes(t *testing.T) {
	const evil = `</script><script>alert(1)</script><img src=x onerror=alert(2)>'"`
	a := *small()
	model, platform, result := *a.Model, *a.Platform, *a.Result
	model.ID, model.Sources = evil, []string{evil}
	platform.Notes = []string{evil}
	result.Request.Platform, result.Notes = evil, []string{evil}
	result.Plans = append([]plan.Plan(nil), result.Plans...)
	result.Plans[0].Why, result.Plans[0].TunedSoftware, result.Plans[0].Wall = []string{evil}, evil, evil
	a.Model, a.Platform, a.Result, a.Flags, a.Version = &model, &platform, &result, evil, evil
	d := parse(t, written(t, &a))
	if n := len(d.tagged("script")); n != 2 {
		t.Errorf("%d scripts, want the page's and its data", n)
	}
	if len(d.tagged("img")) > 0 {
		t.Error("an element was smuggled in")
	}
	if !strings.Contains(text(d.ids["answer"]), evil) {
		t.Error("the text itself is lost")
	}
}

// TestSameTwice: a report is compared with an earlier one, so the same question gives the same bytes.
func TestSameTwice(t *testing.T) {
	if written(t, small()) != written(t, ask(t, "qwen3-30b", "h100", 32, nil)) {
		t.Error("two answers to one question differ")
	}
}
