package structure

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/moeplan/moeplan"

// file is one Go file of the module.
type file struct {
	path  string // relative to the module, with slashes
	test  bool
	lines int
	ast   *ast.File
}

// pkg is one folder with Go files.
type pkg struct {
	dir   string // relative to the module: "layout/arch"
	files []file
}

// tree parses every Go file of the module, once a test; what is not there yet is simply not checked.
func tree(t *testing.T) (map[string]*pkg, *token.FileSet) {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatalf("the module's root is not three folders up: %v", err)
	}
	packages, positions := map[string]*pkg{}, token.NewFileSet()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			// The go command ignores these folders too.
			if base := d.Name(); base != "." && (base == "testdata" || base[0] == '.' || base[0] == '_') {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(os.DirFS(root), name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(positions, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if packages[dir] == nil {
			packages[dir] = &pkg{dir: dir}
		}
		packages[dir].files = append(packages[dir].files, file{
			path: name, test: strings.HasSuffix(name, "_test.go"), lines: strings.Count(string(text), "\n"), ast: parsed,
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if packages["folding"] == nil {
		t.Fatal("folding was not found: the walk is broken")
	}
	return packages, positions
}

// imports returns what a file imports.
func (f file) imports() []string {
	var paths []string
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic("bug: parsed import path " + spec.Path.Value)
		}
		paths = append(paths, p)
	}
	return paths
}

// under reports whether dir is the folder of a pattern or, for "x/...", lies in it.
func under(dir, pattern string) bool {
	if base, deep := strings.CutSuffix(pattern, "/..."); deep {
		return dir == base || strings.HasPrefix(dir, base+"/")
	}
	return dir == pattern
}

func underAny(dir string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return under(dir, p) })
}
