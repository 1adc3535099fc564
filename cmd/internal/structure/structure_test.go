package structure

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// libraries are the packages below cmd.
var libraries = []string{"folding/...", "layout/...", "memmodel/...", "topology/..."}

type direction struct {
	from   string
	may    []string
	reason string
}

// directions says, for each package, which packages of ours its files may import (tests apart), and why no others.
// The first matching line holds.
var directions = []direction{
	{"folding/...", nil, "two meshes over ranks are arithmetic; whoever needs them must not get models or memory with them"},
	{"layout/arch/...", nil, "a model's shape has no opinion on how it is trained, and both layout and memmodel stand on it"},
	{"layout/script", []string{"layout/megatron"}, "a launch script becomes an argv; what the argv means is layout/megatron's to say"},
	{"layout/megatron", []string{"layout", "layout/arch", "folding"}, "command lines are another spelling of a layout, not of its price"},
	{"layout/evidence/sqlite", nil, "a file format knows nothing of what is kept in it"},
	{"layout/evidence/oracle", nil, "it holds only tests, which need a whole SQLite to write and judge databases"},
	{"layout/evidence", []string{"layout/evidence/sqlite", "layout", "layout/arch", "layout/megatron", "folding"}, "what a run showed must not depend on what we predicted for it"},
	{"layout/where", []string{"layout"}, "a condition over layouts knows their sizes and nothing of their price"},
	{"layout/recipes", []string{"layout", "layout/arch", "folding"}, "what others published is no opinion of ours: it must not depend on a price"},
	{"layout/timeline", []string{"layout", "memmodel", "topology/steptime"},
		"a step laid out in time needs both prices; it adds who waits for whom, and knows neither requests nor platforms"},
	{"layout/plan", []string{"layout", "layout/recipes", "layout/arch", "layout/megatron", "layout/timeline", "layout/where", "folding", "memmodel", "memmodel/launch", "topology", "topology/steptime"},
		"the one package that knows memory and time; it prints nothing and knows no calibration"},
	{"layout", []string{"layout/arch", "folding"}, "legality is decided before anything is priced; an import of a price would be a cycle in thought"},
	{"memmodel/launch", []string{"memmodel", "layout", "layout/arch", "layout/megatron"},
		"a command line becomes what memory depends on; hardware comes in as plain values, as in memmodel"},
	{"memmodel/calibrate", []string{"memmodel", "memmodel/launch", "layout", "layout/arch", "layout/megatron", "layout/evidence", "folding"},
		"memory is fitted to measured peaks, never to a time model"},
	{"memmodel", []string{"layout", "layout/arch", "folding"}, "what memory needs of the hardware comes in as plain values, so that it never waits for a platform table"},
	{"topology/steptime/calibrate", []string{"topology", "topology/steptime", "layout", "layout/arch"}, "a fit of times knows the time model and what was measured, nothing of memory or plans"},
	{"topology/steptime", []string{"topology", "layout", "layout/arch", "folding"}, "time and memory are priced side by side by layout/plan; neither may lean on the other"},
	{"topology", []string{"layout", "layout/arch", "folding"}, "placement knows layouts and links, not bytes per GPU or seconds"},
	{"cmd/internal/live", []string{"cmd/internal/page"}, "a server of pages plans nothing: whoever starts it says how questions are answered"},
	{"cmd/internal/page", []string{"layout", "layout/arch", "layout/megatron", "layout/plan", "layout/timeline", "folding", "topology"},
		"a page draws what a plan says; bytes and seconds come out of layout/plan, never from a model of its own; of megatron it takes the quoting of commands"},
	{"cmd/internal/...", []string{"cmd/internal/...", "folding/...", "layout/...", "memmodel/...", "topology/..."}, "shared parts of the program may show anything, but not reach into a command"},
	{"cmd/moeplan", []string{"cmd/internal/...", "folding/...", "layout/...", "memmodel/...", "topology/..."}, "the program is the top"},
}

func TestImportDirections(t *testing.T) {
	packages, _ := tree(t)
	for dir, p := range packages {
		at := slices.IndexFunc(directions, func(d direction) bool { return under(dir, d.from) })
		if at < 0 {
			t.Errorf("package %s has no line in the table of directions: give it one, with a reason, and a place in ARCHITECTURE.md", dir)
			continue
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			for _, to := range f.imports() {
				ours, ok := strings.CutPrefix(to, module+"/")
				if ok && !underAny(ours, directions[at].may) {
					t.Errorf("%s imports %s: %s", f.path, ours, directions[at].reason)
				}
			}
		}
	}
}

// bans are packages of others that some of ours must not import (tests apart).
var bans = []struct {
	in     []string
	except []string
	what   []string // "x/..." takes everything below too
	reason string
}{
	{libraries, []string{"layout/script"}, []string{"os/...", "syscall/...", "net/...", "io/ioutil", "plugin"},
		"libraries read files through an fs.FS or io.Reader they are handed, know no environment, and run in a browser"},
	{[]string{"layout/script"}, nil, []string{"os/exec", "net/...", "syscall/..."}, "reading a script must not be able to run it"},
	{libraries, nil, []string{"log/...", "flag", "testing/..."}, "libraries print nothing and have no flags: they return values and errors"},
	{libraries, nil, []string{"github.com/alecthomas/kong/...", "github.com/olekukonko/tablewriter/...", "golang.org/x/term/..."},
		"grammar, tables and terminals belong to the program"},
	{[]string{"folding/...", "layout", "layout/arch", "layout/megatron", "memmodel", "topology"}, nil, []string{"gonum.org/v1/gonum/..."},
		"facts and bytes are integers; fits and statistics live in memmodel/calibrate and topology/steptime/calibrate"},
	{[]string{"folding/...", "layout/...", "memmodel/...", "topology/...", "cmd/..."}, nil,
		[]string{"pgregory.net/rapid/...", "github.com/google/go-cmp/...", "github.com/rogpeppe/go-internal/...",
			"github.com/chromedp/...", "golang.org/x/net/...",
			"modernc.org/...", "github.com/google/jsonschema-go/...", "github.com/santhosh-tekuri/jsonschema/..."}, "these are for tests"},
	{[]string{"folding/...", "layout/...", "memmodel/...", "topology/...", "cmd/..."}, nil, []string{"math/rand", "unsafe", "C"},
		"answers are deterministic, portable and built without a C compiler"},
}

func TestBannedImports(t *testing.T) {
	packages, _ := tree(t)
	for dir, p := range packages {
		for _, f := range p.files {
			if f.test {
				continue
			}
			for _, to := range f.imports() {
				for _, ban := range bans {
					if underAny(dir, ban.in) && !underAny(dir, ban.except) && underAny(to, ban.what) {
						t.Errorf("%s imports %s: %s", f.path, to, ban.reason)
					}
				}
			}
		}
	}
}

// TestLibrariesPrintNothing finds the prints that need no banned import.
func TestLibrariesPrintNothing(t *testing.T) {
	packages, positions := tree(t)
	for dir, p := range packages {
		if !underAny(dir, libraries) {
			continue
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				switch fun := call.Fun.(type) {
				case *ast.SelectorExpr:
					if x, ok := fun.X.(*ast.Ident); ok && x.Name == "fmt" && slices.Contains([]string{"Print", "Printf", "Println"}, fun.Sel.Name) {
						t.Errorf("%s: fmt.%s: libraries return values, the program prints them", positions.Position(call.Pos()), fun.Sel.Name)
					}
				case *ast.Ident:
					if fun.Name == "print" || fun.Name == "println" {
						t.Errorf("%s: %s: libraries return values, the program prints them", positions.Position(call.Pos()), fun.Name)
					}
				}
				return true
			})
		}
	}
}

func TestPackageComments(t *testing.T) {
	packages, _ := tree(t)
	for dir, p := range packages {
		var with []string
		code := false
		for _, f := range p.files {
			if f.test {
				continue
			}
			code = true
			if f.ast.Doc != nil {
				with = append(with, f.path)
			}
		}
		if code && len(with) != 1 {
			t.Errorf("package %s has a package comment in %d files %v; it needs one, in doc.go (main.go for a program)", dir, len(with), with)
		}
	}
}

// TestNames: a package is named after what it is about.
func TestNames(t *testing.T) {
	packages, _ := tree(t)
	for dir := range packages {
		switch base := path.Base(dir); base {
		case "util", "utils", "common", "types", "helper", "helpers", "misc", "base":
			t.Errorf("package %s: the name %s says nothing about what belongs there", dir, base)
		}
	}
}

// TestFileLength: past 500 lines a file holds more than one concept.
func TestFileLength(t *testing.T) {
	const limit = 500
	packages, _ := tree(t)
	for _, p := range packages {
		for _, f := range p.files {
			if f.lines >= limit {
				t.Errorf("%s has %d lines; split it below %d, one concept a file", f.path, f.lines, limit)
			}
		}
	}
}

// TestUnder guards the patterns: a table that matches nothing would pass everything above.
func TestUnder(t *testing.T) {
	for _, tt := range []struct {
		dir, pattern string
		want         bool
	}{
		{"layout", "layout", true},
		{"layout/arch", "layout", false},
		{"layout/arch", "layout/...", true},
		{"layout", "layout/...", true},
		{"layouts", "layout/...", false},
		{"os", "os/...", true},
		{"os/exec", "os/...", true},
	} {
		if under(tt.dir, tt.pattern) != tt.want {
			t.Errorf("under(%q, %q) is not %v", tt.dir, tt.pattern, tt.want)
		}
	}
}
