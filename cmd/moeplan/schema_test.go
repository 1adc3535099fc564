package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rogpeppe/go-internal/txtar"
	second "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/moeplan/moeplan/cmd/internal/report"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/evidence"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/layout/script"
	"github.com/moeplan/moeplan/topology"
)

const (
	theLayout = "tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm"
	other     = "tp4 pp8 vpp8 ep16 mbs2 recompute=moe_act"
)

type output struct {
	name  string
	of    any
	title string
	// list says that the output is a list of them.
	list bool
	runs []string
}

// outputs are what -o json prints, by the name of its schema: the type that it is made from, and command lines whose answers
// must keep to it. Those that describe a whole catalogue are in it, and what a person writes is not.
var outputs = []output{
	{"plan", plan.Result{}, "moeplan plan -o json", false, []string{
		"--gpus 256 --model qwen3-235b -o json", "--gpus 64 --model llama3-70b --pareto -o json --top 2",
		"--gpus 8 --model deepseek-v3 -o json", "--gpus 64 --model qwen3-30b -o json --objective workflow --imbalance 1.3 --top 1"}},
	{"plan-explain", plan.Story{}, "moeplan plan --explain N -o json", false, []string{
		"--gpus 256 --model qwen3-235b --explain 3 -o json", "--gpus 8 --model qwen3-8b --explain 1 -o json"}},
	{"diff", plan.Difference{}, "moeplan diff -o json", false, []string{"diff --gpus 256 --model qwen3-235b -o json@" + theLayout + "@" + other,
		"diff --gpus 256 --model qwen3-235b -o json@" + theLayout + "@" + theLayout}},
	{"next", plan.Experiments{}, "moeplan next -o json", false, []string{"next --gpus 256 --model qwen3-235b -o json@" + theLayout,
		"next --gpus 8 --model qwen3-8b -o json"}},
	{"size", plan.Sizing{}, "moeplan size -o json", true, []string{"size --model qwen3-30b -o json --tokens 1T --price-per-gpu-hour 2",
		"size --model qwen3-30b --gpus 8,64 -o json"}},
	{"ranks", ranksJSON{}, "moeplan ranks -o json", false, []string{"ranks --world 64 --tp 2 --cp 2 --pp 2 --ep 8 --etp 1 -o json"}},
	{"mem", plan.Account{}, "moeplan mem -o json", false, []string{"mem --gpus 256 --model qwen3-235b -o json@" + theLayout}},
	{"check", (&report.Checked{Judgement: &plan.Judgement{}, Script: &script.Script{}}).JSON(), "moeplan check -o json", false, []string{
		"check --gpus 8 -o json -- --num-layers 4 --hidden-size 1024 --num-attention-heads 16 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --vocab-size 32000 --bf16",
		"check --gpus 8 -o json -- --num-layers 3 --hidden-size 1024 --num-attention-heads 16 --pipeline-model-parallel-size 2",
		"check --gpus 8 -o json -- --num-layers four"}},
	{"batch-answer", batchAnswer{}, "one line that moeplan batch writes, if the request could be read", false, nil},
	{"models", arch.Model{}, "moeplan models -o json", true, []string{"models -o json"}},
	{"model", arch.Model{}, "moeplan models NAME -o json", false, []string{"models dsv3 -o json", "models list qwen3-8b -o json"}},
	{"platforms", topology.Platform{}, "moeplan platforms -o json", true, []string{"platforms -o json"}},
	{"platform", platformJSON{}, "moeplan platforms NAME -o json", false, []string{"platforms gb200 -o json", "platforms mi300x -o json"}},
	{"calibrate", calibratedJSON{}, "moeplan calibrate -o json", false, []string{"calibrate --from ours.jsonl --save written.yaml -o json"}},
	{"contract", evidence.Contract{}, "moeplan contract -o json", false, []string{"contract --gpus 256 --model qwen3-235b -o json@" + theLayout,
		"contract --gpus 256 --model qwen3-235b --variable layout.moe_token_dispatcher --base alltoall --set layout.moe_token_dispatcher=deepep -o json@" + theLayout}},
	{"validate-record", recordJSON{}, "moeplan validate --record ID -o json", false, []string{"validate --record m0728 -o json"}},
	{"explain-term", meaning{}, "moeplan explain TERM -o json", false, []string{"explain EDP -o json"}},
	{"recipes", recipeJSON{}, "moeplan recipes -o json", true, []string{"recipes --model dsv3 -o json", "recipes hybridep -o json"}},
	{"config-show", settingRow{}, "moeplan config show -o json", true, []string{"config show --gpus 8 -o json"}},
	{"emit-check", megatron.Command{}, "moeplan emit --for check -o json", false, []string{"emit --gpus 256 --model qwen3-235b -o json@" + theLayout}},
	{"workflow", plan.Workflow{}, "moeplan workflow -o json", false, []string{"workflow --gpus 256 --model qwen3-235b -o json@" + theLayout}},
	{"validate-memory", memoryJSON{}, "moeplan validate -o json", false, []string{"validate -o json"}},
	{"version", build{}, "moeplan version -o json", false, []string{"version -o json"}},
	{"error", errorJSON{}, "one line on standard error, with -o json", false, nil},
	{"verify", evidence.Verification{}, "moeplan verify -o json", false, []string{
		"verify fake-agrees.log --gpus 256 --model qwen3-235b -o json@" + evidenceLayout, "verify fake-deviates.log --gpus 256 --model qwen3-235b -o json@" + evidenceLayout}},
	{"evidence", evidenceJSON{}, "moeplan evidence -o json", false, []string{"evidence --contract plain.yaml base.log -o json",
		"evidence --contract deepep.yaml faster.log base.log --trace trace-deepep.json.gz -o json", "evidence --contract plain.yaml nan.log --strength screen -o json"}},
	{"evidence-regression", regressionJSON{}, "moeplan evidence --regression -o json", false, []string{"evidence --regression base.log faster.log -o json"}},
	{"overlap", overlapJSON{}, "moeplan overlap -o json", false, []string{"overlap trace.json.gz -o json", "overlap trace-deepep.json.gz --log faster.log --gpu h100 -o json"}},
	{"explain", explainedJSON{}, "moeplan explain -o json", false, []string{"explain -o json"}},
	{"explain-rule", ruleJSON{}, "moeplan explain RULE -o json", false, []string{"explain vpp-needs-pp -o json"}},
	{"emit-launch", megatron.LaunchCommand{}, "moeplan emit --for launch -o json", false, []string{"emit --for launch --gpus 256 --model qwen3-235b -o json@" + theLayout}},
	{"emit-bridge", megatron.Bridge{}, "moeplan emit --for bridge -o json", false, []string{"emit --for bridge --gpus 256 --model qwen3-235b -o json@" + theLayout}},
	{"validate-ranking", plan.Replayed{}, "moeplan validate --ranking -o json", false, nil},
}

// judgedBy are the tests that judge real answers of the schemas without command lines: their files and names.
var judgedBy = map[string][2]string{
	"batch-answer":     {"schema_test.go", "TestBatchAnswersKeepToTheirSchema"},
	"error":            {"schema_test.go", "TestErrorsKeepToTheirSchema"},
	"validate-ranking": {filepath.Join("..", "..", "layout", "plan", "replay_test.go"), "TestReplay"}, // too long to do twice
}

// nullLists are lists that are null where what they list is not defined: DESIGN.md section 4 says so.
var nullLists = []string{"batch-answer/stages", "check/stages"}

// special are types that write themselves.
var special = sync.OnceValue(func() map[reflect.Type]*jsonschema.Schema {
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[arch.LayerFreq]():     {Types: []string{"integer", "string"}},
		reflect.TypeFor[topology.Figure]():    {Types: []string{"number", "null"}},
		reflect.TypeFor[evidence.Value]():     {Types: []string{"number", "string", "null"}},
		reflect.TypeFor[evidence.Bytes]():     {Types: []string{"integer", "null"}},
		reflect.TypeFor[evidence.Index]():     {Types: []string{"integer", "null"}},
		reflect.TypeFor[evidence.Ordinal]():   {Types: []string{"integer", "null"}},
		reflect.TypeFor[json.RawMessage]():    {},
		reflect.TypeFor[evidence.Kind]():      {Type: "string"},
		reflect.TypeFor[evidence.Operation](): {Type: "string"},
		reflect.TypeFor[evidence.Contract]():  contractSchema(),
	}
})

// comments are read once for all schemas.
var comments = &commentsOf{packages: map[string]declared{}}

// schemaOf is the schema of an output, from its type.
func schemaOf(t *testing.T, name string, of any, title string, list bool) []byte {
	t.Helper()
	s, err := jsonschema.ForType(reflect.TypeOf(of), &jsonschema.ForOptions{TypeSchemas: special()})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	wholeLists(s, name)
	comments.t = t
	comments.describe(s, reflect.TypeOf(of), nil)
	if list {
		s = &jsonschema.Schema{Type: "array", Items: s}
	}
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", title
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// wholeLists takes null from the types of lists and maps: an empty one is [] or {}. A pair of fixed length behind a pointer
// may be null.
func wholeLists(s *jsonschema.Schema, path string) {
	if s == nil {
		return
	}
	if len(s.Types) == 2 && (s.Types[1] == "array" && s.MinItems == nil || s.Types[1] == "object" && s.Properties == nil) && !slices.Contains(nullLists, path) {
		s.Type, s.Types = s.Types[1], nil
	}
	for name, p := range s.Properties {
		wholeLists(p, path+"/"+name)
	}
	wholeLists(s.Items, path+"/*")
	if s.Properties == nil {
		wholeLists(s.AdditionalProperties, path+"/*")
	}
}

// TestSchemas holds the published schemas against the types. UPDATE=1 rewrites them.
func TestSchemas(t *testing.T) {
	for _, o := range outputs {
		want := schemaOf(t, o.name, o.of, o.title, o.list)
		path := filepath.Join("..", "..", "schema", o.name+".json")
		got, err := os.ReadFile(path)
		if err == nil && bytes.Equal(got, want) {
			continue
		}
		if os.Getenv("UPDATE") == "" {
			t.Errorf("%s is not what the type says (UPDATE=1 go test ./cmd/moeplan -run TestSchemas rewrites it)", path)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// compiled is a published schema as the second validator reads it.
func compiled(t *testing.T, name string) *second.Schema {
	t.Helper()
	s, err := second.NewCompiler().Compile(filepath.Join("..", "..", "schema", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validates(t *testing.T, s *second.Schema, what string, text []byte) {
	t.Helper()
	value, err := second.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if err := s.Validate(value); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// TestOutputsKeepToTheirSchemas: real answers, judged by another implementation of JSON Schema than the one that wrote it.
func TestOutputsKeepToTheirSchemas(t *testing.T) {
	t.Setenv("MOEPLAN_CONFIG", "none")
	script, err := txtar.ParseFile(filepath.Join("testdata", "script", "calibrate.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	ours := filepath.Join(t.TempDir(), "ours.jsonl")
	for _, f := range script.Files {
		if f.Name == "runs.jsonl" {
			if err := os.WriteFile(ours, f.Data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	plain := evidenceContract(t)
	deepep := evidenceContract(t, "--variable", "layout.moe_token_dispatcher", "--base", "alltoall", "--set", "layout.moe_token_dispatcher=deepep")
	for _, o := range outputs {
		s := compiled(t, o.name)
		if len(o.runs) == 0 && !isTest(t, judgedBy[o.name]) {
			t.Errorf("no real answer is held against %s", o.name)
		}
		for _, r := range o.runs {
			parts := strings.Split(r, "@") // words, then whole layouts
			args := append(strings.Fields(parts[0]), parts[1:]...)
			for i, a := range args {
				switch {
				case strings.HasSuffix(a, ".log") || strings.HasSuffix(a, ".gz"):
					args[i] = evidenceData + a
				case a == "ours.jsonl":
					args[i] = ours
				case a == "plain.yaml":
					args[i] = plain
				case a == "deepep.yaml":
					args[i] = deepep
				case a == "written.yaml":
					args[i] = filepath.Join(t.TempDir(), a)
				}
			}
			var out, problems bytes.Buffer
			if code := run(context.Background(), args, &out, &problems); code != exitDone && code != exitNoFit && code != exitIllegal && code != exitDeviates {
				t.Errorf("%s: exit %d: %s", r, code, &problems)
				continue
			}
			validates(t, s, r, out.Bytes())
		}
	}
}

// isTest reports whether a file has a test.
func isTest(t *testing.T, at [2]string) bool {
	t.Helper()
	if at[0] == "" {
		return false
	}
	text, err := os.ReadFile(at[0])
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(text, []byte("func "+at[1]+"(t *testing.T)"))
}

// TestBatchAnswersKeepToTheirSchema: command lines from sound to hopeless.
func TestBatchAnswersKeepToTheirSchema(t *testing.T) {
	s := compiled(t, "batch-answer")
	m, err := arch.Lookup("qwen3-30b-a3b")
	if err != nil {
		t.Fatal(err)
	}
	sound := append(slices.Clone(m.MegatronFlags), "--micro-batch-size", "1", "--global-batch-size", "64", "--seq-length", "4096",
		"--max-position-embeddings", "4096", "--bf16", "--expert-model-parallel-size", "8")
	for _, args := range [][]string{sound, append(slices.Clone(sound), "--tensor-model-parallel-size", "3"), {"--num-layers", "4"},
		{"--nonsense"}, {}} {
		line, err := json.Marshal(map[string]any{"id": "a", "world_size": 8, "args": args, "platform": "h100"})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := json.Marshal(answerLine(context.Background(), line))
		if err != nil {
			t.Fatal(err)
		}
		validates(t, s, fmt.Sprint(args), answer)
	}
}

// TestErrorsKeepToTheirSchema: with and without violations.
func TestErrorsKeepToTheirSchema(t *testing.T) {
	s := compiled(t, "error")
	for _, args := range [][]string{{"--model", "nonsense", "--gpus", "8", "-o", "json"}, {"--nonsense", "-o", "json"},
		{"mem", "--gpus", "256", "--model", "qwen3-235b", "-o", "json", "tp3 pp8"}, {"ranks", "--world", "8", "--tp", "3", "-o", "json"}} {
		var out, problems bytes.Buffer
		if code := run(context.Background(), args, &out, &problems); code == 0 || out.Len() > 0 {
			t.Errorf("%q: exit %d and %q", args, code, &out)
		}
		validates(t, s, fmt.Sprint(args), problems.Bytes())
	}
}

// TestSchemasRefuse guards the judge: what is not an answer must not pass.
func TestSchemasRefuse(t *testing.T) {
	s := compiled(t, "ranks")
	var out bytes.Buffer
	if code := run(context.Background(), strings.Fields("ranks --world 8 -o json"), &out, &out); code != 0 {
		t.Fatal(out.String())
	}
	for _, change := range []func(map[string]any){
		func(m map[string]any) { delete(m, "groups") },
		func(m map[string]any) { m["groups"] = nil },
		func(m map[string]any) { m["world"] = "8" },
		func(m map[string]any) { m["more"] = 1 },
	} {
		var value map[string]any
		if err := json.Unmarshal(out.Bytes(), &value); err != nil {
			t.Fatal(err)
		}
		change(value)
		if s.Validate(value) == nil {
			t.Errorf("passes: %v", slices.Sorted(maps.Keys(value)))
		}
	}
}

// TestEveryJSONHasASchema walks the grammar: each command whose -o takes json has a schema whose title begins with it, and
// each schema belongs to a command.
func TestEveryJSONHasASchema(t *testing.T) {
	var g grammar
	parser, err := kong.New(&g)
	if err != nil {
		t.Fatal(err)
	}
	titled := func(command string) bool {
		for _, o := range outputs {
			if strings.HasPrefix(o.title, "moeplan "+command+" ") && strings.HasSuffix(o.title, "-o json") {
				return true
			}
		}
		return false
	}
	found := 0
	for _, leaf := range parser.Model.Leaves(false) {
		command := strings.TrimSuffix(strings.TrimPrefix(leaf.Path(), "moeplan "), " list") // the default of models
		for _, f := range leaf.Flags {
			if f.Name != "output" || !slices.Contains(strings.Split(f.Enum, ","), "json") {
				continue
			}
			if found++; !titled(command) {
				t.Errorf("moeplan %s -o json has no schema", command)
			}
		}
	}
	if found < 18 {
		t.Errorf("only %d commands print JSON: the walk finds too few", found)
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "schema", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		if !slices.ContainsFunc(outputs, func(o output) bool { return o.name == name }) {
			t.Errorf("%s is the schema of nothing", f)
		}
	}
}

// TestWrittenFilesKeepToTheirSchemas: emit --save writes a plan file, of a model of one's own too.
func TestWrittenFilesKeepToTheirSchemas(t *testing.T) {
	t.Setenv("MOEPLAN_CONFIG", "none")
	model, gpu := ownFiles(t, t.TempDir(), "deepseek-v3", "gb200")
	for _, args := range [][]string{{"--gpus", "8", "--model", "qwen3-8b", "tp2"}, {"--gpus", "256", "--model", model, "--gpu", gpu, "tp1 pp8 ep32 recompute=full"}} {
		dir := filepath.Join(t.TempDir(), "saved")
		mustRun(t, append([]string{"emit", "--save", dir}, args...)...)
		text, err := os.ReadFile(filepath.Join(dir, "plan.json"))
		if err != nil {
			t.Fatal(err)
		}
		validates(t, compiled(t, "plan"), fmt.Sprint(args), text)
	}
}
