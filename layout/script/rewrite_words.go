package script

import (
	"mvdan.cc/sh/v3/syntax"
)

// words rewrites what is inside words: command substitutions, process substitutions, the machine's own variables.
func (w *rewriter) words(words ...*syntax.Word) {
	for _, word := range words {
		if word != nil {
			w.inside(word)
		}
	}
}

func (w *rewriter) arithm(exprs ...syntax.ArithmExpr) {
	for _, x := range exprs {
		if x == nil {
			continue
		}
		w.inside(x)
		w.bareNames(x)
	}
}

// bareNames handles variables that arithmetic names without a dollar.
func (w *rewriter) bareNames(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		word, ok := n.(*syntax.Word)
		if !ok {
			return true
		}
		if len(word.Parts) == 1 {
			if lit, ok := word.Parts[0].(*syntax.Lit); ok && syntax.ValidName(lit.Value) {
				if v, ok := constants[lit.Value]; ok {
					lit.Value = v
				} else {
					w.reads(lit.Value, false, lit.Pos())
				}
			}
		}
		return true
	})
}

// reads notes that a variable is read.
func (w *rewriter) reads(name string, withDefault bool, pos syntax.Pos) {
	if _, seen := w.facts.firstSeen[name]; seen || w.facts.given[name] {
		return
	}
	w.facts.firstSeen[name] = w.place(pos)
	w.facts.defaulted[name] = withDefault
}

// inside walks one node that is not a statement list.
func (w *rewriter) inside(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Word:
			w.parts(n.Parts)
		case *syntax.DblQuoted:
			w.parts(n.Parts)
		case *syntax.CmdSubst:
			if len(n.Stmts) == 1 && n.Stmts[0].Cmd == nil && len(n.Stmts[0].Redirs) == 1 {
				w.redirects(n.Stmts[0]) // $(<file) is a form of its own
				return false
			}
			w.list(&n.Stmts, false)
			return false // list has been everywhere below
		case *syntax.ParamExp:
			w.parameter(n)
		case *syntax.ArithmExp:
			if n.X != nil {
				w.bareNames(n.X)
			}
		case *syntax.UnaryTest:
			switch n.Op {
			case syntax.TsUsrOwn, syntax.TsGrpOwn, syntax.TsModif:
				n.Op = syntax.TsExists // ownership would ask the machine who we are
			}
		}
		return true
	})
}

// parts replaces process substitutions, which need named pipes, by a file that is empty.
func (w *rewriter) parts(parts []syntax.WordPart) {
	for i, p := range parts {
		switch p := p.(type) {
		case *syntax.ProcSubst:
			parts[i] = &syntax.Lit{ValuePos: p.Pos(), ValueEnd: p.End(), Value: noneFile}
		case *syntax.ParamExp:
			if v, ok := constants[parameterName(p)]; ok && plainParameter(p) {
				parts[i] = &syntax.Lit{ValuePos: p.Pos(), ValueEnd: p.End(), Value: v}
			}
		}
	}
}

func (w *rewriter) parameter(p *syntax.ParamExp) {
	name := parameterName(p)
	if v, ok := constants[name]; ok {
		p.Param.Value = hidden + "const_" + v // unset: the odd forms of these variables are empty
		return
	}
	if name == "" || !syntax.ValidName(name) {
		return
	}
	withDefault := false
	if p.Exp != nil {
		switch p.Exp.Op {
		case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
			syntax.AssignUnset, syntax.AssignUnsetOrNull:
			withDefault = true
		}
	}
	w.reads(name, withDefault, p.Pos())
	if p.Index != nil {
		w.bareNames(p.Index)
	}
	if p.Slice != nil {
		for _, x := range []syntax.ArithmExpr{p.Slice.Offset, p.Slice.Length} {
			if x != nil {
				w.bareNames(x)
			}
		}
	}
}

func parameterName(p *syntax.ParamExp) string {
	if p.Param == nil {
		return ""
	}
	return p.Param.Value
}

func plainParameter(p *syntax.ParamExp) bool {
	return p.Exp == nil && p.Repl == nil && p.Slice == nil && p.Index == nil && !p.Length && !p.Excl && p.Names == 0
}

// countExpansions counts the variables and the command substitutions in a node.
func countExpansions(n syntax.Node) (all, substitutions int) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.ParamExp:
			all++
		case *syntax.CmdSubst:
			all++
			substitutions++
		}
		return true
	})
	return all, substitutions
}

// growth says how many values a statement itself can put together before anything else is executed, and by how much
// ${x//a/b} multiplies them: 0 none, n > 0 the length of a replacement without variables, -n one with n variables.
func growth(st *syntax.Stmt) (weight, repl int) {
	count := func(n syntax.Node) {
		all, _ := countExpansions(n)
		weight += all
		syntax.Walk(n, func(n syntax.Node) bool {
			if p, ok := n.(*syntax.ParamExp); ok && p.Repl != nil && p.Repl.With != nil {
				if vars, _ := countExpansions(p.Repl.With); vars > 0 {
					repl = min(repl, 0) - vars
				} else if repl >= 0 {
					repl += int(p.Repl.With.End().Offset() - p.Repl.With.Pos().Offset())
				}
			}
			return true
		})
	}
	for _, r := range st.Redirs {
		if r.Hdoc != nil {
			count(r.Hdoc)
		}
		if r.Word != nil {
			count(r.Word)
		}
	}
	switch cm := st.Cmd.(type) {
	case *syntax.CallExpr, *syntax.DeclClause, *syntax.ArithmCmd, *syntax.LetClause, *syntax.TestClause:
		count(cm)
	case *syntax.ForClause:
		if l, ok := cm.Loop.(*syntax.WordIter); ok {
			for _, item := range l.Items {
				count(item)
			}
		}
	case *syntax.CaseClause:
		count(cm.Word)
	}
	return weight, repl
}
