package where

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"
	"github.com/moeplan/moeplan/layout"
)

// row is what a predicate sees of a layout.
type row struct {
	World     int    `expr:"gpus" what:"number of GPUs"`
	TP        int    `expr:"tp" what:"tensor parallel size"`
	CP        int    `expr:"cp" what:"context parallel size"`
	DP        int    `expr:"dp" what:"data parallel size"`
	PP        int    `expr:"pp" what:"pipeline parallel size"`
	VPP       int    `expr:"vpp" what:"chunks per pipeline rank, 1 is not interleaved"`
	ETP       int    `expr:"etp" what:"expert tensor parallel size"`
	EP        int    `expr:"ep" what:"expert parallel size"`
	EDP       int    `expr:"edp" what:"expert data parallel size"`
	MBS       int    `expr:"mbs" what:"micro-batch size"`
	GBS       int    `expr:"gbs" what:"global batch size"`
	M         int    `expr:"m" what:"micro-batches per pipeline and step"`
	Seq       int    `expr:"seq" what:"sequence length"`
	Recompute string `expr:"recompute" what:"recompute as text, such as \"none\" or \"moe_act,layernorm\""`
}

// maxText and maxNodes bound a predicate before and after it is parsed, maxListed the numbers that a range such as tp..9999
// may make of one layout: a search asks for hundreds of thousands.
const (
	maxText   = 2000
	maxNodes  = 500
	maxListed = 4096
)

// Predicate is a compiled condition. It is not safe for concurrent use.
type Predicate struct {
	program *vm.Program
	machine vm.VM
	row     row
	err     error
}

// Compile compiles a predicate. The error is one line that names what is wrong and where.
func Compile(text string) (*Predicate, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("condition of %d characters: at most %d are read", len(text), maxText)
	}
	var loops loopFinder
	program, err := expr.Compile(text, expr.Env(row{}), expr.AsBool(), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins(),
		expr.Patch(&loops))
	if err == nil && loops.found {
		err = errors.New("loops over lists are not part of conditions")
	}
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("condition %q: %s; names are %s", text, line, strings.Join(names(), " "))
	}
	return &Predicate{program: program, machine: vm.VM{MemoryBudget: maxListed}}, nil
}

// loopFinder finds the expressions that run over a list, such as all(1..9, # > 0).
type loopFinder struct{ found bool }

func (f *loopFinder) Visit(node *ast.Node) {
	if _, ok := (*node).(*ast.PredicateNode); ok {
		f.found = true
	}
}

// Holds reports whether a layout meets the condition. A condition that cannot be evaluated, such as a division by zero,
// does not hold; Err then says why.
func (p *Predicate) Holds(l *layout.Layout) bool {
	p.row = row{l.World, l.TP, l.CP, l.DP(), l.PP, l.VPP, l.ETP, l.EP, l.EDP(), l.MicroBatchSize, l.GlobalBatchSize,
		l.NumMicrobatches(), l.SeqLength, l.Recompute.String()}
	out, err := p.machine.Run(p.program, p.row)
	if err != nil {
		if p.err == nil {
			line, _, _ := strings.Cut(err.Error(), "\n")
			p.err = fmt.Errorf("%s: %s", l, line)
		}
		return false
	}
	holds, _ := out.(bool)
	return holds
}

// Err is the first failure of an evaluation, with the layout, or nil.
func (p *Predicate) Err() error { return p.err }

// Field is one name that predicates may use.
type Field struct{ Name, What string }

// Fields lists the names that predicates may use, in a fixed order.
func Fields() []Field {
	t := reflect.TypeFor[row]()
	fields := make([]Field, t.NumField())
	for i := range fields {
		f := t.Field(i)
		fields[i] = Field{f.Tag.Get("expr"), f.Tag.Get("what")}
	}
	return fields
}

func names() []string {
	var out []string
	for _, f := range Fields() {
		out = append(out, f.Name)
	}
	return out
}
