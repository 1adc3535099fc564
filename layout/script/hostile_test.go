package script

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestHostile: scripts that would not end, or would eat the machine, end at a limit and say so.
func TestHostile(t *testing.T) {
	for _, tt := range []struct{ why, script string }{
		{"endless loop", `while true; do :; done`},
		{"endless loop without a command", `while ((1)); do x=1; done`},
		{"endless C loop", `for ((;;)); do ((x++)); done`},
		{"endless until", `until false; do sleep 1; done`},
		{"recursion", `f() { f; }; f`},
		{"mutual recursion through eval", `f() { eval g; }; g() { eval f; }; f`},
		{"fork bomb", `:(){ :|:& };:`},
		{"a script that starts itself", `bash -c "$(printf '%q' "$0")"; f() { bash -c "f() { $1; }; f"; }; f`},
		{"strings in strings", `export C='bash -c "$C"'; bash -c "$C"`},
		{"doubling a variable", `x=aaaaaaaaaaaaaaaa; while ((1)); do x=$x$x; done`},
		{"doubling without a loop", "x=aaaaaaaaaaaaaaaa\n" + strings.Repeat("x=$x$x$x$x$x$x$x$x\n", 40)},
		{"doubling an array", `a=(1 2 3 4); while ((1)); do a+=("${a[@]}"); done`},
		{"doubling by parameters", `set -- 1 2 3 4; while ((1)); do set -- "$@" "$@"; done`},
		{"appending", `while ((1)); do x+=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done`},
		{"replacing", `x=$(printf 'a%.0s' {1..9999}); y=${x//a/$x}; z=${y//a/$y}`},
		{"many references in one word", "x=$(printf 'a%.0s' {1..9999})\ny=" + strings.Repeat("$x", 20000)},
		{"here-document that grows", "x=$(printf 'a%.0s' {1..9999})\nwhile ((1)); do read -r x <<EOF\n$x$x$x\nEOF\ndone"},
		{"output that grows", `x=$(while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done)`},
		{"braces", `echo {1..999999999}`},
		{"braces times braces", `echo {1..999}{1..999}{1..999}`},
		{"a wide format", `printf '%999999999d' 1; x=$(printf '%.999999999d%.999999999d' 1 2); printf '%*d' 999999999 1`},
		{"a far index", `a[999999999999]=1; echo "${a[@]}" ${#a[@]}; a[-1]=2`},
		{"a long sequence", `for i in $(seq 1 1000000000); do :; done; for i in $(seq 1 0 5); do :; done`},
		{"a loop in the background", `while true; do sleep 1; done & while :; do :; done & wait`},
		{"a trap that loops", `trap 'while :; do :; done' EXIT`},
		{"a trap in a trap", `trap 'trap "trap x EXIT; false" EXIT; false' EXIT ERR; false`},
		{"cat without an end", `cat; cat -; read x; mapfile a; select x in a; do :; done`},
		{"a pipe without a reader", `while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done | true`},
		{"many launches", `while :; do torchrun p.py; done`},
		{"name references in a circle", `declare -n a=b; declare -n b=a; echo $a; a=1`},
		{"arithmetic in a circle", `a=b; b=a; echo $((a)); ((a++))`},
		{"division by zero and overflow", `echo $((1/0)) $((1%0)) $((9223372036854775807+1)) $((1<<99)) $((2**99)) $((-1>>-1))`},
		{"an expensive pattern", `x=$(printf 'a%.0s' {1..5000}); [[ $x == +(+(+(a)))b ]]; shopt -s extglob; case $x in !(!(!(a*a*a*b)))) ;; esac; echo ${x//+(a)*(a)b/}`},
		{"an expensive expression", `x=$(printf 'a%.0s' {1..5000}); [[ $x =~ ^(a+)+b$ ]]; [[ $x =~ a{999}{999}{999} ]]`},
		{"odd tests", `[ -O x ]; [ ]; [ a b c d e f ]; [[ -v a ]]; [[ -R a ]]; [ -t 0 ]; test -a; [ ! ]; [ \( ]; [[ a -nt b ]]`},
		{"odd builtins", `getopts; getopts a; getopts : x -a; shift -1; shift x; break 99; continue; return; wait %1; popd; pushd; dirs -c; exit x`},
		{"odd expansions", `echo ${x:?no} ${!x} ${x@Q} ${x@A} ${!x@} ${x:-1:-1} ${x:5:-9} ${@:0} ${*:9} ${#@} ${a[@]@K}; echo "${a[x]}" "$(( ))"`},
		{"zero bytes", "echo a\x00b\ntorchrun\x00 p.py"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			start := time.Now()
			_, err := ReadBash(context.Background(), "hostile.sh", strings.NewReader(tt.script), Options{Timeout: 300 * time.Millisecond})
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if took > 3*time.Second {
				t.Errorf("took %v with a timeout of 0.3 s", took)
			}
			if got := (after.HeapSys - before.HeapSys) >> 20; after.HeapSys > before.HeapSys && got > 512 {
				t.Errorf("the heap grew by %d MiB", got)
			}
			var syn *SyntaxError
			if err != nil && !errors.As(err, &syn) {
				t.Error(err)
			}
		})
	}
}

// TestLoopAfterLaunch: what came before the limit is kept.
func TestLoopAfterLaunch(t *testing.T) {
	s := readBash(t, "torchrun p.py --num-layers 2\nwhile true; do echo x; done\n", Options{Timeout: time.Second})
	if len(s.Commands) != 1 || s.Complete || len(s.Warnings) != 1 || s.Warnings[0].Kind != Stopped {
		t.Errorf("%+v", s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s, err := ReadBash(ctx, "x", strings.NewReader("torchrun p.py"), Options{})
	if err != nil || s.Complete {
		t.Errorf("cancelled before the start: %+v, %v", s, err)
	}
}

// TestTooMuch: files that are refused before anything is interpreted.
func TestTooMuch(t *testing.T) {
	for why, text := range map[string]string{
		"long":                 strings.Repeat("# comment\n", 1<<16),
		"round brackets":       strings.Repeat("(", 100_000),
		"substitutions":        strings.Repeat("$(", 50_000) + strings.Repeat(")", 50_000),
		"blocks":               strings.Repeat("{ ", 5000) + ":" + strings.Repeat("; }", 5000),
		"loops":                strings.Repeat("while :; do ", 5000) + ":" + strings.Repeat("; done", 5000),
		"conditions":           strings.Repeat("if :; then ", 5000) + ":" + strings.Repeat("; fi", 5000),
		"expansions":           "echo " + strings.Repeat("${a:-", 20_000) + strings.Repeat("}", 20_000),
		"a chain of operators": strings.Repeat("a && ", 50_000) + "a",
		"a chain of pipes":     strings.Repeat("a | ", 50_000) + "a",
		"an arithmetic chain":  "echo $((" + strings.Repeat("1+", 100_000) + "1))",
		"minus signs":          "echo $((" + strings.Repeat("- ", 100_000) + "1))",
		"an assignment chain":  "echo $((" + strings.Repeat("a=", 100_000) + "1))",
		"negations":            "[[ " + strings.Repeat("! ", 100_000) + "a ]]",
		"backquotes":           strings.Repeat("`", 99_999),
		"quotes":               strings.Repeat("\"$(", 50_000),
		"here-documents":       strings.Repeat("cat <<A\n", 20_000),
		"functions":            strings.Repeat("f() ", 20_000),
		"time":                 strings.Repeat("time ", 50_000) + "a",
		"coproc":               strings.Repeat("coproc ", 30_000) + "a",
		"elif":                 "if a; then b; " + strings.Repeat("elif a; then b; ", 15_000) + "fi",
	} {
		t.Run(why, func(t *testing.T) {
			start := time.Now()
			s, err := ReadBash(context.Background(), "x.sh", strings.NewReader(text), Options{Timeout: time.Second})
			if err == nil && len(s.Commands) > 0 {
				t.Errorf("%+v", s.Commands)
			}
			if took := time.Since(start); took > 4*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// words of which random scripts are made: enough structure to get past the parser.
var words = []string{
	"torchrun p.py", "$x", "\"$y\"", "x=1", "x+=$y", "a=(1 2)", "${a[@]}", "$(", ")", "`", "{", "}", "(", ";", "\n", " ", "|", "&", "&&", "||",
	"if", "then", "else", "fi", "while", "do", "done", "for x in", "case", "in", "esac", "[[", "]]", "[", "]", "((", "))", "<", ">", ">>", "<<<",
	"<(", ">(", "eval", "trap", "EXIT", "source", "exec", "command", "builtin", "read", "mapfile", "printf", "echo", "cd", "pwd -P", "exit", "return",
	"function f", "f()", "local", "declare -A", "export", "set --", "shift", "!", "time", "coproc", "'", "\"", "\\", "#", "~", "*", "?", "${x:-", "${!x}",
	"$((", "-O", "-e", "==", "=~", "-eq", "<<EOF\n", "EOF\n", "bash -c", "wait", "$!", "$$", "$?", "$@", "{1..9}", "break", "continue", "env -i", "\x00", "é",
}

func checkScript(t interface{ Fatalf(string, ...any) }, text string) {
	start := time.Now()
	s, err := ReadBash(context.Background(), "fuzz.sh", strings.NewReader(text), Options{Timeout: 300 * time.Millisecond, MaxCalls: 2000, MaxBytes: 1 << 16})
	if took := time.Since(start); took > 3*time.Second {
		t.Fatalf("took %v: %q", took, text)
	}
	if (s == nil) == (err == nil) && !errors.As(err, new(*UnsupportedError)) {
		t.Fatalf("%v, %v", s, err)
	}
}

func TestRandomScripts(t *testing.T) { rapid.Check(t, randomScript) }

func FuzzRandomScripts(f *testing.F) { f.Fuzz(rapid.MakeFuzz(randomScript)) }

func randomScript(t *rapid.T) {
	parts := rapid.SliceOfN(rapid.SampledFrom(words), 0, 40).Draw(t, "words")
	checkScript(t, strings.Join(parts, rapid.SampledFrom([]string{" ", ""}).Draw(t, "between")))
}

func FuzzReadBash(f *testing.F) {
	f.Add([]byte("#!/bin/bash\nTP=2\ntorchrun --nproc_per_node 8 p.py --tp $TP"))
	f.Add([]byte("a=(1 2); for i in ${a[@]}; do bash -c \"torchrun p.py $i\" & done; wait"))
	f.Add([]byte("cat <(echo x) > >(cat); trap 'echo $(x)' EXIT; read a < <(b)"))
	f.Fuzz(func(t *testing.T, b []byte) { checkScript(t, string(b)) })
}

func FuzzReadYAML(f *testing.F) {
	f.Add([]byte("ENV_VARS:\n  A: 1\nMODEL_ARGS:\n  --num-layers: 2\n  --bf16: true\n"))
	f.Add([]byte("num_layers: 2\nrecompute_modules: [moe, mlp]\n"))
	f.Add([]byte("a: &a [*a, *a]\nnum_layers: {b: 1}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, text := range [][]byte{b, append([]byte("num_layers: 2\n"), b...), append([]byte("MODEL_ARGS:\n  "), b...)} {
			s, err := ReadYAML("fuzz.yaml", bytes.NewReader(text), Options{MaxBytes: 1 << 16})
			if (s == nil) == (err == nil) {
				t.Fatalf("%v, %v", s, err)
			}
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add("run.sh", []byte("torchrun p.py"))
	f.Add("a.yaml", []byte("trainer: {}\nmodel: {}"))
	f.Add("", []byte("{\"model_type\": \"x\"}"))
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		s, err := Read(context.Background(), name, bytes.NewReader(b), Options{Timeout: 200 * time.Millisecond, MaxCalls: 1000})
		if s == nil && err == nil {
			t.Fatal("neither a script nor an error")
		}
	})
}

func FuzzReadArgs(f *testing.F) {
	f.Add("torchrun --nnodes 2 p.py --num-layers 2")
	f.Add("model.tensor_model_parallel_size=2 ++train.micro_batch_size=1")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ReadArgs("argv", strings.Fields(text)); s == nil && err == nil {
			t.Fatal("neither a script nor an error")
		}
	})
}
