package script

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Names that the rewriting puts into a script. They begin with a prefix that no script uses.
const (
	hidden    = "__moeplan_"
	atName    = hidden + "at"    // variable: file, line and column of the call at hand
	guardName = hidden + "guard" // command: checks the size of all variables before a statement grows them
	haveName  = hidden + "have"  // command: "is there a program of this name?"
	noneFile  = "/dev/moeplan/process-substitution"
)

// constants replace variables whose value would be the reading machine's.
var constants = map[string]string{
	"$": "4242", "PPID": "4241", "BASHPID": "4242", "RANDOM": "4242", "SRANDOM": "4242", "SECONDS": "0",
	"EPOCHSECONDS": "1700000000", "EPOCHREALTIME": "1700000000.0", "LINENO": "1",
}

// facts is what the rewriting of one or more files saw, for the warnings.
type facts struct {
	defaulted map[string]bool   // variables whose first reading has one
	given     map[string]bool   // variables that the script assigns before it reads them, wherever in the text
	arrays    map[string]bool   // variables that are given arrays
	condition map[string]bool   // places of calls whose success decides something
	assigned  map[string]string // places of calls inside $(...) -> the variable that takes the output
	firstSeen map[string]place  // where a variable is first read
}

type place struct {
	file      string
	line, col int
}

func (p place) String() string {
	return p.file + ":" + strconv.Itoa(p.line) + ":" + strconv.Itoa(p.col)
}

func parsePlace(s string) place {
	file, rest, ok := cutLast(s, ":")
	col, _ := strconv.Atoi(rest)
	file, rest, ok2 := cutLast(file, ":")
	line, _ := strconv.Atoi(rest)
	if !ok || !ok2 {
		return place{}
	}
	return place{file, line, col}
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func newFacts() *facts {
	return &facts{
		given: map[string]bool{}, defaulted: map[string]bool{}, arrays: map[string]bool{}, condition: map[string]bool{},
		assigned: map[string]string{}, firstSeen: map[string]place{},
	}
}

// rewriter changes a syntax tree so that the interpreter reaches nothing but our handlers:
//
//   - > and its relatives are cut off, <( ) becomes an empty file or a here-string;
//   - a | b becomes b <<<"$(a)", a & becomes ( a ): no pipes, no goroutines, one order of events;
//   - variables whose value is the machine's own become constants;
//   - every call carries its place, every statement that may grow a variable is preceded by a guard.
type rewriter struct {
	file  string
	set   map[string]string
	facts *facts
}

func (w *rewriter) rewrite(f *syntax.File) {
	w.list(&f.Stmts, false)
}

// list rewrites statements and puts guards between them.
func (w *rewriter) list(stmts *[]*syntax.Stmt, background bool) {
	out := make([]*syntax.Stmt, 0, len(*stmts))
	for _, st := range *stmts {
		w.stmt(st, background)
		if weight, repl := growth(st); weight > 0 {
			out = append(out, guard(weight, repl))
		}
		out = append(out, st)
	}
	*stmts = out
}

func (w *rewriter) stmt(st *syntax.Stmt, background bool) {
	if st.Background || st.Coprocess || st.Disown {
		st.Background, st.Coprocess, st.Disown = false, false, false
		st.Cmd = &syntax.Subshell{Stmts: []*syntax.Stmt{{Cmd: st.Cmd, Position: st.Position}}}
		background = true
	}
	switch cm := st.Cmd.(type) {
	case *syntax.TimeClause:
		st.Cmd = block(cm.Stmt)
	case *syntax.CoprocClause:
		st.Cmd = block(cm.Stmt)
		background = true
	case *syntax.BinaryCmd:
		if cm.Op == syntax.Pipe || cm.Op == syntax.PipeAll {
			right := cm.Y
			right.Redirs = append([]*syntax.Redirect{hereString([]*syntax.Stmt{cm.X})}, right.Redirs...)
			st.Cmd = block(right)
		}
	}
	w.redirects(st)
	if st.Cmd != nil {
		w.command(st.Cmd, background)
	}
	if st.Negated {
		w.conditional(st)
	}
}

func (w *rewriter) command(cmd syntax.Command, background bool) {
	switch cm := cmd.(type) {
	case *syntax.CallExpr:
		w.call(cm, background)
	case *syntax.Block:
		w.list(&cm.Stmts, background)
	case *syntax.Subshell:
		w.list(&cm.Stmts, background)
	case *syntax.IfClause:
		for c := cm; c != nil; c = c.Else {
			w.list(&c.Cond, background)
			w.list(&c.Then, background)
			w.conditional(c.Cond...)
		}
	case *syntax.WhileClause:
		w.list(&cm.Cond, background)
		w.list(&cm.Do, background)
		w.conditional(cm.Cond...)
		if background {
			cm.Do = append(cm.Do, call("break"))
		}
	case *syntax.ForClause:
		switch l := cm.Loop.(type) {
		case *syntax.WordIter:
			w.words(l.Items...)
			w.gives(l.Name.Value)
		case *syntax.CStyleLoop:
			w.arithm(l.Init, l.Cond, l.Post)
			if background {
				cm.Do = append(cm.Do, call("break"))
			}
		}
		w.list(&cm.Do, background)
	case *syntax.CaseClause:
		w.words(cm.Word)
		for _, item := range cm.Items {
			w.words(item.Patterns...)
			w.list(&item.Stmts, background)
		}
	case *syntax.BinaryCmd:
		w.stmt(cm.X, background)
		w.stmt(cm.Y, background)
		w.conditional(cm.X)
	case *syntax.FuncDecl:
		if cm.Body != nil {
			w.stmt(cm.Body, false)
		}
	case *syntax.DeclClause:
		w.declaration(cm)
	case *syntax.ArithmCmd:
		w.arithm(cm.X)
	case *syntax.LetClause:
		w.arithm(cm.Exprs...)
	case *syntax.TestClause:
		w.inside(cm)
	case *syntax.TestDecl:
		w.stmt(cm.Body, background)
	}
}

func (w *rewriter) call(c *syntax.CallExpr, background bool) {
	for _, a := range c.Assigns {
		w.assign(a)
	}
	w.words(c.Args...)
	if len(c.Args) == 0 {
		return
	}
	if background && c.Args[0].Lit() == "sleep" {
		c.Args = []*syntax.Word{literal("exit")} // a job in the background that waits has done what it can do here
	}
	switch c.Args[0].Lit() {
	case "read", "mapfile", "readarray", "getopts":
		for _, a := range c.Args[1:] {
			if name := a.Lit(); syntax.ValidName(name) {
				w.gives(name)
			}
		}
	}
	at := w.place(c.Args[0].Pos())
	c.Assigns = append(c.Assigns, &syntax.Assign{
		Name: &syntax.Lit{Value: atName}, Value: &syntax.Word{Parts: []syntax.WordPart{&syntax.SglQuoted{Value: at.String()}}},
	})
}

func (w *rewriter) place(pos syntax.Pos) place {
	return place{strings.Map(func(r rune) rune {
		if r == '\'' || r < ' ' {
			return '_'
		}
		return r
	}, w.file), int(pos.Line()), int(pos.Col())}
}

// gives notes that a variable is assigned.
func (w *rewriter) gives(name string) {
	if _, read := w.facts.firstSeen[name]; !read {
		w.facts.given[name] = true
	}
}

// assign rewrites one assignment. A variable that the caller set keeps the caller's value where the script would ask
// a command for it.
func (w *rewriter) assign(a *syntax.Assign) {
	if a.Name != nil && !a.Naked && !a.Append {
		defer w.gives(a.Name.Value)
	}
	if a.Index != nil {
		w.arithm(a.Index)
	}
	if a.Array != nil {
		if a.Name != nil {
			w.facts.arrays[a.Name.Value] = true
		}
		for _, e := range a.Array.Elems {
			if e.Index != nil {
				w.arithm(e.Index)
			}
			if e.Value != nil {
				w.words(e.Value)
			}
		}
	}
	if a.Value == nil {
		return
	}
	if a.Name != nil {
		if _, substituted := countExpansions(a.Value); substituted > 0 {
			if v, ok := w.set[a.Name.Value]; ok && !a.Append {
				a.Value = &syntax.Word{Parts: []syntax.WordPart{&syntax.SglQuoted{Value: v}}}
				return
			}
			syntax.Walk(a.Value, func(n syntax.Node) bool {
				if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
					w.facts.assigned[w.place(c.Args[0].Pos()).String()] = a.Name.Value
				}
				return true
			})
		}
	}
	w.words(a.Value)
}

// declaration removes attributes that the interpreter does not know and that change no value here.
func (w *rewriter) declaration(d *syntax.DeclClause) {
	args := d.Args[:0]
	for _, a := range d.Args {
		if a.Name == nil && a.Value != nil {
			if lit := a.Value.Lit(); strings.HasPrefix(lit, "-") || strings.HasPrefix(lit, "+") {
				for _, letter := range lit[1:] {
					if lit[0] == '-' && strings.ContainsRune("xraAgn", letter) {
						args = append(args, &syntax.Assign{Naked: true, Value: literal("-" + string(letter))})
					}
				}
				continue
			}
		}
		w.assign(a)
		args = append(args, a)
	}
	d.Args = args
}

// conditional notes the calls whose success decides what happens next.
func (w *rewriter) conditional(stmts ...*syntax.Stmt) {
	for _, st := range stmts {
		if st == nil || st.Cmd == nil {
			continue
		}
		switch cm := st.Cmd.(type) {
		case *syntax.CallExpr:
			if len(cm.Args) > 0 {
				w.facts.condition[w.place(cm.Args[0].Pos()).String()] = true
			}
		case *syntax.BinaryCmd:
			w.conditional(cm.X, cm.Y)
		case *syntax.Block:
			w.conditional(cm.Stmts...)
		case *syntax.Subshell:
			w.conditional(cm.Stmts...)
		}
	}
}

func literal(s string) *syntax.Word {
	return &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: s}}}
}

func call(words ...string) *syntax.Stmt {
	c := &syntax.CallExpr{}
	for _, w := range words {
		c.Args = append(c.Args, literal(w))
	}
	return &syntax.Stmt{Cmd: c}
}

func block(st *syntax.Stmt) syntax.Command {
	if st == nil {
		st = call(":")
	}
	return &syntax.Block{Stmts: []*syntax.Stmt{st}}
}

func hereString(stmts []*syntax.Stmt) *syntax.Redirect {
	return &syntax.Redirect{Op: syntax.WordHdoc, Word: &syntax.Word{Parts: []syntax.WordPart{
		&syntax.DblQuoted{Parts: []syntax.WordPart{&syntax.CmdSubst{Stmts: stmts}}},
	}}}
}

// guard is "guard N R && :", which keeps $? and never trips set -e.
func guard(weight, repl int) *syntax.Stmt {
	return &syntax.Stmt{Cmd: &syntax.BinaryCmd{
		Op: syntax.AndStmt, X: call(guardName, strconv.Itoa(weight), strconv.Itoa(repl)), Y: call(":"),
	}}
}
