// Package where compiles predicates over layouts, such as
//
//	tp <= 4 && ep*etp <= 8
//
// into functions. Names are Megatron's short forms (Fields lists them); the language is that of expr-lang/expr,
// without its built-in functions and loops, so a predicate is arithmetic, comparison and logic and ends at once.
package where
