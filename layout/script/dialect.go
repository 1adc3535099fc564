package script

import (
	"context"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Dialect is a way to write a launch down.
type Dialect string

// Dialects that are read.
const (
	Bash     Dialect = "bash script"
	Megatron Dialect = "Megatron-LM arguments"
	ArgsYAML Dialect = "YAML with MODEL_ARGS"
	FlatYAML Dialect = "YAML of Megatron-LM arguments"
	Bridge   Dialect = "Megatron-Bridge overrides"
	Swift    Dialect = "ms-swift arguments"
	Verl     Dialect = "verl's Hydra keys"
)

// Dialects that are recognised and not read.
const (
	Unknown     Dialect = ""
	DeepSpeed   Dialect = "DeepSpeed configuration"
	NeMo        Dialect = "NeMo configuration"
	Torchtitan  Dialect = "torchtitan configuration"
	Accelerate  Dialect = "Hugging Face accelerate configuration"
	HFConfig    Dialect = "Hugging Face config.json"
	HydraYAML   Dialect = "verl or Hydra configuration file"
	BridgeYAML  Dialect = "Megatron-Bridge configuration file"
	RuntimeConf Dialect = "Megatron-MoE-ModelZoo runtime.conf table"
)

// Supported reports whether launches in this dialect are read.
func (d Dialect) Supported() bool {
	return slices.Contains([]Dialect{Bash, Megatron, ArgsYAML, FlatYAML, Bridge, Swift, Verl}, d)
}

var (
	shellName       = lazily(`\b(ba|da|z|k|a)?sh\b`)
	torchtitanTable = lazily(`(?m)^\[(job|training|parallelism|model)\]\s*$`)
	yamlKey         = lazily(`^[A-Za-z_-][A-Za-z0-9_.-]*:(\s|$)`)
	// runtimeRow is one of ModelZoo's: a name, then eight or more numbers, then a dispatcher.
	runtimeRow = lazily(`(?m)^[A-Za-z][\w.-]*([ \t]+[0-9]+){8,}[ \t]+(alltoall|allgather|flex|deepep|hybridep)\b`)
	shellSigns = lazily(`(?m)^\s*(export\s+\w+=|\w+=\S*$|\w+\+?=\(|if \[|for \w+ in|source |\. |set -|torchrun|python3?\s|srun|exec |function |\w+\(\)\s*\{|#SBATCH)`)
)

// lazily compiles an expression when it is first used, so that programs that read no script do not wait for it when they start.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// Detect says which dialect a file is in and by what it was recognised. It looks at the name, the first line and the
// keys, and decides nothing else: a file that looks like a script may still fail to parse. Dialects for which Supported
// is false are named so that the refusal can be.
func Detect(name string, content []byte) (Dialect, string) {
	text := string(content)
	if len(text) > 1<<20 {
		text = text[:1<<20]
	}
	ext := strings.ToLower(path.Ext(name))
	first, _, _ := strings.Cut(strings.TrimLeft(text, "\ufeff \t\r\n"), "\n")
	switch {
	case strings.HasPrefix(first, "#!") && shellName().MatchString(first):
		return Bash, "its first line is " + strings.TrimSpace(shorten(first, 60))
	case strings.HasPrefix(first, "#SBATCH"):
		return Bash, "it has #SBATCH lines"
	case strings.HasPrefix(first, "{"):
		return detectJSON(text)
	case path.Base(name) == "runtime.conf" || runtimeRow().MatchString(text):
		return RuntimeConf, "rows of model, TP, PP, EP, CP, VPP, MBS, GBS, layers, dispatcher"
	case ext == ".toml" || torchtitanTable().MatchString(text):
		return Torchtitan, "TOML with torchtitan's tables"
	case ext == ".yaml" || ext == ".yml":
		return detectYAML(text)
	case slices.Contains([]string{".sh", ".bash", ".slurm", ".sbatch", ".sub"}, ext):
		return Bash, "its name ends in " + ext
	}
	keys, lines := 0, 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || line == "---" {
			continue
		}
		lines++
		if yamlKey().MatchString(line) || strings.HasPrefix(line, "- ") {
			keys++
		}
		if lines >= 200 {
			break
		}
	}
	switch {
	case lines > 0 && keys*10 >= lines*9:
		return detectYAML(text)
	case shellSigns().MatchString(text):
		return Bash, "it has shell assignments or commands"
	}
	return Unknown, "neither a script nor a configuration that is known"
}

func detectJSON(text string) (Dialect, string) {
	for _, d := range []struct {
		key     string
		dialect Dialect
	}{
		{`"zero_optimization"`, DeepSpeed}, {`"train_micro_batch_size_per_gpu"`, DeepSpeed},
		{`"train_batch_size"`, DeepSpeed}, {`"model_type"`, HFConfig}, {`"architectures"`, HFConfig},
		{`"compute_environment"`, Accelerate}, {`"distributed_type"`, Accelerate},
	} {
		if strings.Contains(text, d.key) {
			return d.dialect, "JSON with " + d.key
		}
	}
	return Unknown, "JSON without a known key"
}

func detectYAML(text string) (Dialect, string) {
	top := map[string]bool{}
	for line := range strings.Lines(text) {
		if yamlKey().MatchString(line) {
			key, _, _ := strings.Cut(line, ":")
			top[key] = true
		}
	}
	for _, d := range []struct {
		dialect Dialect
		keys    []string
	}{
		{ArgsYAML, []string{"MODEL_ARGS"}},
		{Accelerate, []string{"compute_environment"}}, {Accelerate, []string{"distributed_type"}},
		{DeepSpeed, []string{"zero_optimization"}},
		{NeMo, []string{"trainer", "exp_manager"}}, {NeMo, []string{"trainer", "model"}},
		{HydraYAML, []string{"actor_rollout_ref"}},
		{BridgeYAML, []string{"model", "train"}}, {BridgeYAML, []string{"model", "ddp"}},
		{Torchtitan, []string{"job", "parallelism"}},
	} {
		if !slices.ContainsFunc(d.keys, func(k string) bool { return !top[k] }) {
			return d.dialect, "YAML with the keys " + strings.Join(d.keys, ", ")
		}
	}
	for key := range top {
		name := strings.ReplaceAll(strings.TrimLeft(key, "-"), "-", "_")
		if _, ok := fields[name]; ok {
			return FlatYAML, "YAML whose keys are Megatron-LM arguments"
		}
	}
	return Unknown, "YAML without a known key"
}

// Read detects the dialect of a file and reads it.
//
// Errors: *UnsupportedError for a file that is in none of the dialects that are read; those of ReadBash and ReadYAML.
func Read(ctx context.Context, name string, src io.Reader, opts Options) (*Script, error) {
	text, err := readAll(name, src, opts.withDefaults().MaxBytes)
	if err != nil {
		return nil, err
	}
	dialect, why := Detect(name, []byte(text))
	var s *Script
	switch dialect {
	case Bash:
		s, err = ReadBash(ctx, name, strings.NewReader(text), opts)
	case ArgsYAML, FlatYAML:
		s, err = ReadYAML(name, strings.NewReader(text), opts)
	default:
		return nil, &UnsupportedError{name, dialect, why}
	}
	if s != nil {
		s.Why = why
	}
	return s, err
}
