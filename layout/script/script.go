package script

import (
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// Script is what a launch file would launch.
type Script struct {
	Name    string  `json:"name"`
	Dialect Dialect `json:"dialect"`
	Why     string  `json:"why"` // why Detect thinks so
	// Commands are the launches in the order in which they would happen.
	Commands []Command `json:"commands"`
	// Warnings are in a fixed order: a limit, variables by place, then what was asked for as it happened.
	Warnings []Warning `json:"warnings"`
	// Complete is false when reading stopped at a limit: there may be launches that are not listed.
	Complete bool `json:"complete"`
}

// Training returns the launch that most looks like training with Megatron: the one with the most arguments that
// concern a layout, the first of equals. It is nil if no launch has any.
func (s *Script) Training() *Command {
	var best *Command
	most := 0
	for i := range s.Commands {
		if n := layoutWords(s.Commands[i].Megatron); n > most {
			best, most = &s.Commands[i], n
		}
	}
	return best
}

// Command is one launch of a program.
type Command struct {
	// Launcher started the program: torchrun, python, deepspeed, megatron (ms-swift), or "" for a bare argv or YAML.
	Launcher string `json:"launcher"`
	// Wrappers are what the launcher itself was started through, outermost first: srun, numactl.
	Wrappers []string `json:"wrappers"`
	// Program is the script or, with Module, the Python module: "pretrain_gpt.py".
	Program string `json:"program"`
	Module  bool   `json:"module"`
	// Args are the program's arguments, expanded as bash would.
	Args []string `json:"args"`
	// Dialect is the spelling of Args; it is "" for programs that are none of ours.
	Dialect Dialect `json:"dialect"`
	// Megatron are the arguments as Megatron-LM spells them. For the Megatron dialect these are Args.
	Megatron []string `json:"megatron"`
	// Model is the model as the launch names it (a Hugging Face name, a path, a recipe), in dialects that take the
	// shapes from there; else empty.
	Model string `json:"model"`
	// Assumed are defaults of the dialect that differ from Megatron-LM's and were written into its spelling.
	Assumed []string `json:"assumed"`
	// Unmapped are the arguments that the dialect has and the translation does not.
	Unmapped []Unmapped `json:"unmapped"`
	// Nodes, PerNode and World are the sizes of the launch. World is Nodes times PerNode or given directly.
	Nodes   Count `json:"nodes"`
	PerNode Count `json:"per_node"`
	World   Count `json:"world"`
	// Env holds the exported variables that the script set, and those set for this command alone.
	Env map[string]string `json:"env"`
	// File, Line and Col are where the launch is written; "bash -c" and eval strings count from their own start.
	File string `json:"file"`
	Line int    `json:"line"`
	Col  int    `json:"col"`
}

// Unmapped is an argument that a translation left out.
type Unmapped struct {
	Key    string `json:"key"`    // the argument as the dialect spells it
	Value  string `json:"value"`  // its value, expanded
	Reason string `json:"reason"` // why it has no flag of Megatron-LM, or why the value cannot be translated
}

// Count is a number with its origin. N is 0 if it is not known; From says why or whence.
type Count struct {
	N    int    `json:"n"`    // the number; 0 is unknown
	From string `json:"from"` // what says so (a flag, a variable, a default), or why it is unknown
}

// Known reports whether the number is known.
func (c Count) Known() bool { return c.N > 0 }

// WarningKind says what a warning is about.
type WarningKind string

const (
	// UnsetVariable is a variable that neither the script nor the caller set.
	UnsetVariable WarningKind = "unset-variable"
	// ScriptDefault is a variable with a default in the script, which holds because nobody set it.
	ScriptDefault WarningKind = "script-default"
	// NotExecuted is a program whose output or success the script asks for.
	NotExecuted WarningKind = "not-executed"
	// NotRead is a file that the script sources or reads and that was not handed over.
	NotRead WarningKind = "not-read"
	// FileTest is a test for a file that was taken not to exist.
	FileTest WarningKind = "file-test"
	// Stopped is a limit at which reading stopped.
	Stopped WarningKind = "stopped"
	// ScriptError is an error that the script would make in bash, or a construct that is not understood.
	ScriptError WarningKind = "script-error"
)

// Warning is a thing that the answer depends on and that was not known.
type Warning struct {
	// Kind is unset-variable, script-default, not-executed, not-read, file-test, stopped (at a limit) or script-error.
	Kind WarningKind `json:"kind"`
	// Name is the variable, the program or the file.
	Name string `json:"name"`
	File string `json:"file"` // where the thing stands; "" if there is no one place
	Line int    `json:"line"` // 0 if there is no one place
	Col  int    `json:"col"`  // 0 if there is no one place
	// Affects are the flags of launches that change with it: "--num-layers", or "launch" where it decides whether
	// a launch happens at all. It is empty for not-read, stopped and script-error.
	Affects []string `json:"affects"`
	// Set is the option that would supply the value, "NNODES=VALUE", or "" if none can.
	Set     string `json:"set"`
	Message string `json:"message"` // one sentence for people
}

// Options bound and feed the reading of a script. The zero value is usable.
type Options struct {
	// Set gives variables to the script, as if it were started with them. A variable that the script itself assigns
	// from a command substitution takes the value from here, because the command is not executed. Other assignments
	// hold, as in bash.
	Set map[string]string
	// Sources are the files that the script may source or read, and the only ones that exist. Paths are relative to
	// the directory the script is started in; the script's own name is a path in it. Nil: none.
	Sources fs.FS
	// Args are the script's own arguments, $1 and so on.
	Args []string
	// Timeout bounds the whole reading; 0 is two seconds. The context may be shorter.
	Timeout time.Duration
	// MaxBytes bounds each file that is read; 0 is 256 KiB.
	MaxBytes int
	// MaxCalls bounds the commands that a script may execute in one reading, loops included; 0 is 20,000.
	MaxCalls int
}

func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 256 << 10
	}
	if o.MaxCalls <= 0 {
		o.MaxCalls = 20_000
	}
	return o
}

// UnsupportedError is returned for a file or launch in a dialect that is recognised and not read.
type UnsupportedError struct {
	Name    string
	Dialect Dialect
	Why     string // what it was recognised by
}

func (e *UnsupportedError) Error() string {
	if e.Dialect == Unknown {
		return fmt.Sprintf("%s: not a launch file that can be read: %s", e.Name, e.Why)
	}
	return fmt.Sprintf("%s: %s is not supported (%s)", e.Name, e.Dialect, e.Why)
}

// SyntaxError is returned for a file that cannot be parsed.
type SyntaxError struct {
	Name      string
	Line, Col int // 0 if unknown
	Message   string
}

func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.Name, e.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.Name, e.Line, e.Col, e.Message)
}

// LimitError is returned for a file that is too large or too deeply nested to be read at all.
type LimitError struct {
	Name    string
	Message string
}

func (e *LimitError) Error() string { return e.Name + ": " + e.Message }

// layoutFlags are the words that make a launch look like Megatron training.
var layoutFlags = map[string]bool{
	"--num-layers": true, "--hidden-size": true, "--num-attention-heads": true, "--seq-length": true,
	"--hybrid-layer-pattern": true, "--micro-batch-size": true, "--global-batch-size": true,
	"--tensor-model-parallel-size": true, "--pipeline-model-parallel-size": true, "--context-parallel-size": true,
	"--expert-model-parallel-size": true, "--expert-tensor-parallel-size": true, "--num-experts": true,
	"--sequence-parallel": true, "--use-distributed-optimizer": true, "--bf16": true, "--fp16": true,
	"--ffn-hidden-size": true, "--max-position-embeddings": true, "--train-iters": true,
}

func layoutWords(args []string) int {
	n := 0
	for _, a := range args {
		name, _, _ := strings.Cut(a, "=")
		if layoutFlags[name] {
			n++
		}
	}
	return n
}
