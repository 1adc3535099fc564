package structure

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArchitectureIsTrue: ARCHITECTURE.md lists every module that go.mod requires directly, and no other, and each package
// and file that it names is there. A document that is wrong once is not read twice.
func TestArchitectureIsTrue(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	document := read("ARCHITECTURE.md")
	_, libraries, found := strings.Cut(document, "## Libraries")
	if !found {
		t.Fatal("no section on libraries")
	}
	direct, _, _ := strings.Cut(read("go.mod")[strings.Index(read("go.mod"), "require ("):], ")")
	required := regexp.MustCompile(`(?m)^\t(\S+) v`).FindAllStringSubmatch(direct, -1)
	if len(required) < 10 {
		t.Fatalf("%d modules in go.mod: the pattern is broken", len(required))
	}
	for _, m := range required {
		if name := strings.TrimPrefix(m[1], "github.com/"); !strings.Contains(libraries, name+" |") && !strings.Contains(libraries, name+",") {
			t.Errorf("go.mod requires %s, which the table of libraries leaves out", m[1])
		}
	}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(libraries, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			if strings.Contains(name, "/") && !strings.Contains(direct, name+" v") {
				t.Errorf("the table of libraries lists %s, which go.mod does not require directly", name)
			}
		}
	}
	packages, _ := tree(t)
	files := map[string]bool{}
	for dir, p := range packages {
		for _, f := range p.files {
			files[f.path], files[filepath.Base(f.path)] = true, true
		}
		if name := "| `" + dir + "` |"; !strings.Contains(document, name) {
			t.Errorf("the table of packages has no row for %s", dir)
		}
	}
	for _, m := range regexp.MustCompile("`([a-z_/]+\\.go)`").FindAllStringSubmatch(document, -1) {
		if !files[m[1]] {
			t.Errorf("%s is named and not there", m[1])
		}
	}
}
