package script

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func readBash(t *testing.T, text string, opts Options) *Script {
	t.Helper()
	s, err := ReadBash(context.Background(), "run.sh", strings.NewReader(text), opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// expansions: what bash makes of the arguments of a launch. TestExpansionLikeBash holds each row against bash.
var expansions = []struct{ why, script, want string }{
	{"plain", `torchrun p.py --tp 2`, "--tp 2"},
	{"variables and defaults", `TP=${TP:-4}; PP=${PP-2}; torchrun p.py --tp $TP --pp ${PP}`, "--tp 4 --pp 2"},
	{"continued lines", "torchrun \\\n  p.py \\\n  --tp 2 \\\n  --pp 4", "--tp 2 --pp 4"},
	{"arrays, appended", `A=(--tp 2); A+=(--moe-layer-freq "([0]*3+[1]*58)"); torchrun p.py "${A[@]}"`, "--tp 2 --moe-layer-freq ([0]*3+[1]*58)"},
	{"comments inside an array", "A=(\n  --tp 2 # two\n  # --pp 8\n  --ep 8\n)\ntorchrun p.py ${A[@]}", "--tp 2 --ep 8"},
	{"a string that is split", `O="--tp 2 --pp 4"; torchrun p.py $O`, "--tp 2 --pp 4"},
	{"a string that is not", `O="a b"; torchrun p.py --name "$O"`, "--name|a b"},
	{"conditions", `TP=4; if [ $TP -gt 1 ]; then X=--sequence-parallel; else X=--bf16; fi; torchrun p.py $X`, "--sequence-parallel"},
	{"[[ ]] and case", `M=qwen3; if [[ $M == qwen* ]]; then L=94; fi; case $M in qwen3) H=4096 ;; *) H=1 ;; esac; torchrun p.py --num-layers $L --hidden-size $H`, "--num-layers 94 --hidden-size 4096"},
	{"regular expressions", `[[ tp4_pp2 =~ tp([0-9]+)_pp([0-9]+) ]] && torchrun p.py --tp ${BASH_REMATCH[1]} --pp ${BASH_REMATCH[2]}`, "--tp 4 --pp 2"},
	{"arithmetic", `N=4; G=8; torchrun p.py --global-batch-size $((N * G * 16))`, "--global-batch-size 512"},
	{"let and (( ))", `let X=3+4; ((Y = X * 2)); torchrun p.py $X $Y`, "7 14"},
	{"functions and local", `f() { local tp=$1; echo "--tp $tp"; }; torchrun p.py $(f 8)`, "--tp 8"},
	{"a launcher in a function", `launch() { torchrun p.py "$@"; }; launch --tp 2`, "--tp 2"},
	{"a function named like the launcher", `torchrun() { command torchrun "$@" --pp 2; }; torchrun p.py --tp 2`, "--tp 2 --pp 2"},
	{"loops", `A=; for i in {1..3}; do A="$A --x $i"; done; torchrun p.py $A`, "--x 1 --x 2 --x 3"},
	{"C loops", `for ((i = 0; i < 2; i++)); do A+=" $i"; done; torchrun p.py $A`, "0 1"},
	{"while with break", `i=0; while true; do i=$((i+1)); [ $i -ge 5 ] && break; done; torchrun p.py $i`, "5"},
	{"until", `i=0; until [ $i -eq 3 ]; do ((i++)); done; torchrun p.py $i`, "3"},
	{"positional parameters and shift", `A=$1; shift; torchrun p.py --tp $A "$@"`, "--tp 1st --pp 2nd"},
	{"getopts", `while getopts "t:p:" o -t 4 -p 2; do case $o in t) T=$OPTARG ;; p) P=$OPTARG ;; esac; done; torchrun p.py --tp $T --pp $P`, "--tp 4 --pp 2"},
	{"here-document", "A=$(cat <<EOF\n--tp 2\n--pp 4\nEOF\n)\ntorchrun p.py $A", "--tp 2 --pp 4"},
	{"read -d from a here-document", "IFS= read -r -d '' A <<'EOF'\n--tp 2 --pp 4\nEOF\ntorchrun p.py $A", "--tp 2 --pp 4"},
	{"read from a here-string", `read -r A B <<< "2 4"; torchrun p.py --tp $A --pp $B`, "--tp 2 --pp 4"},
	{"mapfile from a process substitution", `mapfile -t A < <(printf '%s\n' --tp 2); torchrun p.py "${A[@]}"`, "--tp 2"},
	{"a pipe into while", `echo "4 2" | while read -r t p; do torchrun p.py --tp $t --pp $p; done`, "--tp 4 --pp 2"},
	{"eval", `C="torchrun p.py --tp 2 > log"; eval $C`, "--tp 2"},
	{"a command in a variable", `C="torchrun p.py"; $C --tp 2 2>&1 | tee log.txt`, "--tp 2"},
	{"an array as a command", `C=(torchrun p.py); "${C[@]}" --tp 2`, "--tp 2"},
	{"exec", `exec torchrun p.py --tp 2`, "--tp 2"},
	{"in the background with wait", `torchrun p.py --tp 2 & PID=$!; wait $PID`, "--tp 2"},
	{"in a subshell", `(cd /x && torchrun p.py --tp 2)`, "--tp 2"},
	{"timed", `time torchrun p.py --tp 2`, "--tp 2"},
	{"negated", `if ! torchrun p.py --tp 2; then exit 1; fi`, "--tp 2"},
	{"after || true", `false || true; torchrun p.py --tp 2`, "--tp 2"},
	{"under set -euo pipefail", `set -Eeuo pipefail; trap 'echo x' ERR EXIT INT; ulimit -n 1024; shopt -s inherit_errexit; torchrun p.py --tp 2`, "--tp 2"},
	{"in a trap", `trap 'torchrun p.py --tp 2' EXIT; exit 3`, "--tp 2"},
	{"redirected every way", `{ torchrun p.py --tp 2 >a 2>b <c >>d &>e >|f 3>g 4<h 5>&1 2>&1 >&2; } > >(tee x)`, "--tp 2"},
	{"substring and replacement", `M=qwen3-235b; torchrun p.py ${M%%-*} ${M#*-} ${M/qwen/q} ${M:0:4} ${#M} ${M^^}`, "qwen3 235b q3-235b qwen 10 QWEN3-235B"},
	{"associative arrays", `declare -A L=([qwen]=94 [ds]=61); torchrun p.py ${L[ds]}`, "61"},
	{"declare -i and export -f are no obstacle", `declare -i N=4; f() { :; }; export -f f; readonly R=2; local X=1; torchrun p.py $N $R`, "4 2"},
	{"basename, dirname, seq", `torchrun p.py $(basename /a/b.yaml .yaml) $(dirname /a/b) $(seq 2 3)`, "b /a 2 3"},
	{"printf -v and %q", `printf -v A '%s-%02d' tp 4; eval "torchrun p.py $(printf '%q ' "$A" '([0]*3)' 'a b' '')"`, "tp-04|([0]*3)|a b|"},
	{"script's own name", `torchrun p.py $0 $(basename $0)`, "run.sh run.sh"},
	{"the machine's numbers are constants", `torchrun p.py $$ $RANDOM $((RANDOM)) $PPID $SECONDS`, "4242 4242 4242 4241 0"},
	{"PIPESTATUS and $? after a launch", `torchrun p.py --tp 2; [ $? -eq 0 ] || exit 1`, "--tp 2"},
	{"carriage returns", "TP=2\r\ntorchrun p.py --tp $TP\r\n", "--tp 2"},
	{"quotes inside words", `torchrun p.py --a='x y' --b="z"w 'it'\''s'`, "--a=x y|--b=zw|it's"},
	{"an unset value is missing, as in bash", `torchrun p.py --tp $NOTSET --pp 2`, "--tp --pp 2"},
	{"a quoted unset value is empty", `torchrun p.py --tp "$NOTSET" --pp 2`, "--tp||--pp|2"},
}

func TestExpansion(t *testing.T) {
	for _, tt := range expansions {
		t.Run(tt.why, func(t *testing.T) {
			s := readBash(t, tt.script, Options{Args: []string{"1st", "--pp", "2nd"}})
			if len(s.Commands) != 1 || !s.Complete {
				t.Fatalf("%d launches, complete %v, warnings %+v", len(s.Commands), s.Complete, s.Warnings)
			}
			if got := joined(s.Commands[0].Args, tt.want); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// joined writes arguments as a row does: with bars where one of them is empty or has blanks.
func joined(args []string, want string) string {
	if strings.Contains(want, "|") {
		return strings.Join(args, "|")
	}
	return strings.Join(args, " ")
}

// TestExpansionLikeBash runs the rows in bash itself, where there is one, with a stand-in for torchrun.
func TestExpansionLikeBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	ours := map[string]string{
		"script's own name":                        "depends on how the script is started",
		"the machine's numbers are constants":      "they are not in bash",
		"carriage returns":                         "bash keeps them, to everybody's regret",
		"declare -i and export -f are no obstacle": "local outside a function is an error message in bash",
	}
	bin := t.TempDir()
	stub := "#!/bin/sh\nshift\n{ for a in \"$@\"; do printf '%s\\0' \"$a\"; done; } >> \"$RESULT\"\n"
	if err := os.WriteFile(filepath.Join(bin, "torchrun"), []byte(stub), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range expansions {
		t.Run(tt.why, func(t *testing.T) {
			if why, ok := ours[tt.why]; ok {
				t.Skip(why)
			}
			dir := t.TempDir()
			result := filepath.Join(dir, "result")
			script := strings.ReplaceAll(tt.script, "cd /x", "cd /")
			for _, f := range []string{"c", "h"} { // files that a row reads from
				if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(bash, "-c", script, "run.sh", "1st", "--pp", "2nd")
			cmd.Dir = dir
			cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "RESULT=" + result, "LC_ALL=C"}
			out, _ := cmd.CombinedOutput() // a script may fail after its launch
			data, err := os.ReadFile(result)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			args := strings.Split(string(data), "\x00")
			if got := joined(args[:len(args)-1], tt.want); got != tt.want {
				t.Errorf("bash says %s\nthe row  %s", got, tt.want)
			}
		})
	}
}

// TestLaunchers: what is started through what.
func TestLaunchers(t *testing.T) {
	for _, tt := range []struct{ why, script, want string }{
		{"torchrun", `torchrun --nnodes 2 --nproc_per_node=8 pretrain_gpt.py -x`, "torchrun | | pretrain_gpt.py | -x | 16"},
		{"torchrun with dashes", `torchrun --nnodes=2 --nproc-per-node 4 pretrain_gpt.py`, "torchrun | | pretrain_gpt.py | | 8"},
		{"torchrun's default is one process", `torchrun pretrain_gpt.py`, "torchrun | | pretrain_gpt.py | | 1"},
		{"a range of nodes is decided later", `torchrun --nnodes 1:4 --nproc_per_node 8 pretrain_gpt.py`, "torchrun | | pretrain_gpt.py | | 0"},
		{"as many as there are GPUs", `torchrun --nproc_per_node gpu pretrain_gpt.py`, "torchrun | | pretrain_gpt.py | | 0"},
		{"a lost value", `torchrun --nnodes $N --nproc_per_node 8 pretrain_gpt.py -x`, "torchrun | | pretrain_gpt.py | -x | 0"},
		{"a lost value before the program", `torchrun --nproc_per_node 8 --nnodes $N pretrain_gpt.py -x`, "torchrun | | pretrain_gpt.py | -x | 0"},
		{"standalone takes no value", `torchrun --standalone --nproc_per_node 8 pretrain_gpt.py`, "torchrun | | pretrain_gpt.py | | 8"},
		{"python -m torch.distributed.run", `python3 -u -m torch.distributed.run --nproc_per_node 8 pretrain_gpt.py -x`, "torchrun | | pretrain_gpt.py | -x | 8"},
		{"python -m torch.distributed.launch", `python -m torch.distributed.launch --nproc_per_node 8 --use_env pretrain_gpt.py -x`, "torchrun | | pretrain_gpt.py | -x | 8"},
		{"python with torchrun's path", `python $(which torchrun) --nproc_per_node 8 pretrain_gpt.py`, "torchrun | | pretrain_gpt.py | | 8"},
		{"a module", `torchrun --nproc_per_node 8 -m pkg.train -x`, "torchrun | | pkg.train | -x | 8"},
		{"plain python", `python pretrain_gpt.py -x`, "python | | pretrain_gpt.py | -x | 0"},
		{"python with options", `python3.12 -W ignore -X dev -B pretrain_gpt.py -x`, "python | | pretrain_gpt.py | -x | 0"},
		{"the check on one GPU", `WORLD_SIZE=256 RANK=0 python pretrain_gpt.py --fake-process-group`, "python | | pretrain_gpt.py | --fake-process-group | 256"},
		{"srun, one task a GPU", `srun -N 4 --ntasks-per-node=8 python -u pretrain_gpt.py -x`, "python | srun | pretrain_gpt.py | -x | 32"},
		{"srun, values joined to their letters", `srun -N4 --ntasks-per-node=8 python pretrain_gpt.py`, "python | srun | pretrain_gpt.py | | 32"},
		{"srun, a letter joined and no other", `srun -n64 python pretrain_gpt.py`, "python | srun | pretrain_gpt.py | | 64"},
		{"srun, tasks in all", `srun --ntasks 64 python pretrain_gpt.py`, "python | srun | pretrain_gpt.py | | 64"},
		{"srun with a string", `srun --mpi=pmix bash -c "torchrun --nnodes 4 --nproc_per_node 8 pretrain_gpt.py -x"`, "torchrun | srun | pretrain_gpt.py | -x | 32"},
		{"srun with a string, one task a GPU", `srun -N 4 --ntasks-per-node=8 bash -c "cd /x; python pretrain_gpt.py -x"`, "python | srun | pretrain_gpt.py | -x | 32"},
		{"mpirun", `mpirun --allow-run-as-root -np 16 -x NCCL_DEBUG python pretrain_gpt.py`, "python | mpirun | pretrain_gpt.py | | 16"},
		{"deepspeed's launcher with Megatron's arguments", `deepspeed --num_nodes 2 --num_gpus 8 pretrain_gpt.py --num-layers 2`, "deepspeed | | pretrain_gpt.py | --num-layers 2 | 16"},
		{"numactl, nsys, env", `numactl --cpunodebind=0 nsys profile -t cuda,nvtx -o out --capture-range cudaProfilerApi env A=1 -u B torchrun --nproc_per_node 8 pretrain_gpt.py`, "torchrun | numactl nsys env | pretrain_gpt.py | | 8"},
		{"uv run", `uv run --no-sync torchrun --nproc_per_node 8 pretrain_gpt.py -x`, "torchrun | uv | pretrain_gpt.py | -x | 8"},
		{"conda run", `conda run -n megatron python pretrain_gpt.py`, "python | conda | pretrain_gpt.py | | 0"},
		{"a container", `srun --container-image=x docker run --gpus all image bash -lc 'torchrun --nproc_per_node 8 pretrain_gpt.py'`, "torchrun | srun docker | pretrain_gpt.py | | 8"},
		{"ray job submit, as slime does", `ray job submit --address=http://a --runtime-env-json='{}' -- python3 train.py --actor-num-nodes 4 --actor-num-gpus-per-node 8 --num-layers 2`, "python | ray | train.py | --actor-num-nodes 4 --actor-num-gpus-per-node 8 --num-layers 2 | 32"},
		{"ssh", `ssh node1 "cd /x && torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py"`, "torchrun | ssh | pretrain_gpt.py | | 16"},
		{"nested strings", `bash -c 'bash -c "torchrun --nproc_per_node 8 pretrain_gpt.py -x"'`, "torchrun | | pretrain_gpt.py | -x | 8"},
		{"arguments of a string", `bash -c 'torchrun p.py --tp $1' x 4`, "torchrun | | p.py | --tp 4 | 1"},
		{"exported variables reach a string", `export TP=4; PP=2; bash -c 'torchrun p.py --tp $TP --pp $PP'`, "torchrun | | p.py | --tp 4 --pp | 1"},
		{"ms-swift's command", `NNODES=2 NPROC_PER_NODE=8 megatron sft --tensor_model_parallel_size 2`, "megatron | | sft | --tensor_model_parallel_size 2 | 16"},
		{"an executable program", `srun -n 8 ./pretrain_gpt.py -x`, ""},
	} {
		t.Run(tt.why, func(t *testing.T) {
			s := readBash(t, tt.script, Options{})
			var got []string
			for _, c := range s.Commands {
				parts := []string{c.Launcher, strings.Join(c.Wrappers, " "), c.Program, strings.Join(c.Args, " "), fmt.Sprint(c.World.N)}
				got = append(got, strings.ReplaceAll(strings.Join(parts, " | "), "|  |", "| |"))
			}
			if g := strings.Join(got, "; "); g != tt.want {
				t.Errorf("got  %s\nwant %s", g, tt.want)
			}
		})
	}
}

func TestBatchLines(t *testing.T) {
	s := readBash(t, `#!/bin/bash
#SBATCH --nodes=4 --job-name test
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:8   # eight
echo start
#SBATCH --nodes=99
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_ON_NODE pretrain_gpt.py
`, Options{})
	if c := s.Commands[0]; c.World.N != 32 {
		t.Errorf("world %+v", c.World)
	}
	s = readBash(t, "#SBATCH -N4\n#SBATCH -n32\nsrun python p.py\n", Options{})
	if c := s.Commands[0]; c.Nodes.N != 4 || c.World.N != 32 {
		t.Errorf("values joined to their letters: %+v and %+v", c.Nodes, c.World)
	}
	s = readBash(t, "#SBATCH -N 4\ntorchrun --nnodes $SLURM_NNODES p.py\n", Options{Set: map[string]string{"SLURM_NNODES": "16"}})
	if c := s.Commands[0]; c.Nodes.N != 16 {
		t.Errorf("--set does not prevail: %+v", c.Nodes)
	}
}

func TestEnvironmentOfALaunch(t *testing.T) {
	s := readBash(t, `export CUDA_DEVICE_MAX_CONNECTIONS=1
export NVTE_FUSED_ATTN=1
PRIVATE=1
unset NVTE_FUSED_ATTN
NCCL_DEBUG=INFO env UB_SKIPMC=1 torchrun pretrain_gpt.py`, Options{Set: map[string]string{"GIVEN": "x"}})
	want := map[string]string{"CUDA_DEVICE_MAX_CONNECTIONS": "1", "NCCL_DEBUG": "INFO", "UB_SKIPMC": "1", "GIVEN": "x"}
	if got := s.Commands[0].Env; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestWarnings: each unknown thing is named with what depends on it, and nothing else is.
func TestWarnings(t *testing.T) {
	for _, tt := range []struct{ why, script, want string }{
		{"nothing unknown", `TP=2; torchrun p.py --tp $TP > $LOG`, ""},
		{"unset, directly", `torchrun p.py --tp $TP`, "unset-variable TP [--tp] TP=VALUE"},
		{"unset, through an array and arithmetic", `A=(--gbs $((NNODES * 8))); torchrun p.py "${A[@]}"`, "unset-variable NNODES [--gbs] NNODES=VALUE"},
		{"unset, through a condition", `if [ -n "$DEBUG" ]; then X=--debug; fi; torchrun p.py $X`, "unset-variable DEBUG [--debug] DEBUG=VALUE"},
		{"unset, deciding the launch", `[ -n "$GO" ] && torchrun p.py`, "unset-variable GO [launch] GO=VALUE"},
		{"unset, the number of nodes", `torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 p.py`, "unset-variable SLURM_NNODES [world size] SLURM_NNODES=VALUE"},
		{"unset, without effect", `echo $NAME; torchrun p.py; mkdir -p $OUT`, ""},
		{"a default of the script", `torchrun p.py --tp ${TP:-4}`, "script-default TP [--tp] TP=VALUE"},
		{"a command", `torchrun p.py --tp $(nproc)`, "not-executed nproc [--tp] "},
		{"a command into a variable", `N=$(scontrol show hostnames | wc -l); torchrun --nnodes $N p.py`, "not-executed wc [world size] N=VALUE"},
		{"a command that decides", `if grep -q H100 /proc/gpus; then X=--fp8; fi; torchrun p.py $X`, "not-executed grep [--fp8] "},
		{"command -v", `if command -v nvidia-smi >/dev/null; then X=--cuda; fi; torchrun p.py $X`, "not-executed command -v nvidia-smi [--cuda] "},
		{"a file", `if [ -f /ckpt/latest ]; then X="--load /ckpt"; fi; torchrun p.py $X`, "file-test /ckpt/latest [--load] "},
		{"a file that is sourced", `source /opt/env.sh; torchrun p.py`, "not-read /opt/env.sh [] "},
		{"a script that is started", `bash other.sh; torchrun p.py`, "not-read other.sh [] "},
		{"an environment variable that counts", `export CUDA_DEVICE_MAX_CONNECTIONS=$CDMC; torchrun p.py`, "unset-variable CDMC [CUDA_DEVICE_MAX_CONNECTIONS] CDMC=VALUE"},
		{"a string that is no script", `bash -c 'torchrun p.py --f ([0]*3)'`, "script-error bash -c:1:19: a command can only contain words and redirects; encountered `(` [] "},
	} {
		t.Run(tt.why, func(t *testing.T) {
			s := readBash(t, tt.script, Options{})
			var got []string
			for _, w := range s.Warnings {
				got = append(got, fmt.Sprintf("%s %s %v %s", w.Kind, w.Name, w.Affects, w.Set))
			}
			if g := strings.Join(got, "; "); g != tt.want {
				t.Errorf("got  %s\nwant %s", g, tt.want)
			}
		})
	}
}

// TestSet: the option that a warning names does supply the value.
func TestSet(t *testing.T) {
	for _, tt := range []struct{ why, script, name, want string }{
		{"unset", `torchrun p.py --tp $TP`, "TP", "--tp 8"},
		{"default", `torchrun p.py --tp ${TP:-4}`, "TP", "--tp 8"},
		{"assigned from a command", `TP=$(nproc); torchrun p.py --tp $TP`, "TP", "--tp 8"},
		{"exported from a command", `export TP=$(nproc); torchrun p.py --tp $TP`, "TP", "--tp 8"},
		{"a literal holds, as in bash", `TP=2; torchrun p.py --tp $TP`, "TP", "--tp 2"},
	} {
		s := readBash(t, tt.script, Options{Set: map[string]string{tt.name: "8"}})
		if got := strings.Join(s.Commands[0].Args, " "); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.why, got, tt.want)
		}
	}
	for _, bad := range []string{"", "A B", "1A", "TMPDIR", "__moeplan_at"} {
		if _, err := ReadBash(context.Background(), "x", strings.NewReader(""), Options{Set: map[string]string{bad: "1"}}); err == nil {
			t.Errorf("%q can be set", bad)
		}
	}
}

func TestPlaces(t *testing.T) {
	s := readBash(t, "# one\n\nif true; then\n  torchrun pretrain_gpt.py \\\n    --num-layers 2\nfi\n", Options{})
	if c := s.Commands[0]; c.File != "" || c.Line != 4 || c.Col != 3 {
		t.Errorf("%s:%d:%d, want 4:3", c.File, c.Line, c.Col)
	}
	_, err := ReadBash(context.Background(), "run.sh", strings.NewReader("a\nif true; then\n"), Options{})
	var e *SyntaxError
	if !errors.As(err, &e) || e.Line != 2 || e.Name != "run.sh" {
		t.Errorf("%v", err)
	}
}

func TestTraining(t *testing.T) {
	s := readBash(t, `python tools/preprocess.py --input x
torchrun pretrain_gpt.py --num-layers 2 --hidden-size 64 --bf16
python convert.py --num-layers 2`, Options{})
	if c := s.Training(); c == nil || c.Program != "pretrain_gpt.py" {
		t.Errorf("%+v", c)
	}
	if c := readBash(t, `python x.py`, Options{}).Training(); c != nil {
		t.Errorf("%+v", c)
	}
}

// TestSeveralLaunches keeps their order, those in the background included.
func TestSeveralLaunches(t *testing.T) {
	s := readBash(t, `for tp in 1 2 4; do torchrun p.py --tp $tp & done; wait; torchrun p.py --tp 8 | tee log | grep x`, Options{})
	var got []string
	for _, c := range s.Commands {
		got = append(got, c.Args[1])
	}
	if !slices.Equal(got, []string{"1", "2", "4", "8"}) {
		t.Errorf("%v", got)
	}
}
