package script

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// redirects cuts off output to files and descriptors above 2, and turns < <( ) into a here-string.
func (w *rewriter) redirects(st *syntax.Stmt) {
	kept := st.Redirs[:0]
	for _, r := range st.Redirs {
		standard := r.N == nil || slices.Contains([]string{"0", "1", "2"}, r.N.Value)
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			if r.N != nil && r.N.Value != "0" {
				continue
			}
			if r.Hdoc != nil {
				w.words(r.Hdoc)
			}
			if r.Op == syntax.WordHdoc {
				w.words(r.Word)
			}
		case syntax.RdrIn, syntax.RdrInOut:
			if r.N != nil && r.N.Value != "0" {
				continue
			}
			r.Op = syntax.RdrIn
			if len(r.Word.Parts) == 1 {
				if ps, ok := r.Word.Parts[0].(*syntax.ProcSubst); ok {
					if ps.Op != syntax.CmdIn {
						continue
					}
					here := hereString(ps.Stmts)
					r.Op, r.Word = here.Op, here.Word
				}
			}
			w.words(r.Word)
		case syntax.DplOut:
			if !standard || !slices.Contains([]string{"1", "2", "-"}, r.Word.Lit()) {
				r = discard(r)
			}
			if !standard {
				continue
			}
		case syntax.DplIn:
			if !standard || r.Word.Lit() != "-" {
				continue
			}
		default: // > >> >| &> &>> and what may come
			if !standard {
				continue
			}
			r = discard(r)
		}
		kept = append(kept, r)
	}
	st.Redirs = kept
}

// discard is a redirection to nowhere, in place of one to a file.
func discard(r *syntax.Redirect) *syntax.Redirect {
	op := syntax.RdrOut
	if r.Op == syntax.RdrAll || r.Op == syntax.AppAll {
		op = syntax.RdrAll
	}
	n := r.N
	if n != nil && n.Value == "0" {
		n = nil
	}
	return &syntax.Redirect{OpPos: r.OpPos, Op: op, N: n, Word: literal("/dev/null")}
}
