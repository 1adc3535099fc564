package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/agnivade/levenshtein"
	"mvdan.cc/sh/v3/shell"
)

// TestReadmeShowsTheRealAnswer holds the first screen of the README against the program. UPDATE=1 rewrites it; read the
// difference before you commit it.
func TestReadmeShowsTheRealAnswer(t *testing.T) {
	const path = "../../README.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const command = "go run ./cmd/moeplan --gpus 256 --model qwen3-235b"
	parts := strings.SplitN(string(text), "```\n", 5)
	if len(parts) != 5 || strings.TrimSpace(parts[1]) != command {
		t.Fatalf("the README's first block is not %q", command)
	}
	t.Setenv("COLUMNS", "")
	var out, problems bytes.Buffer
	if code := run(context.Background(), strings.Fields(command)[3:], &out, &problems); code != 0 {
		t.Fatalf("exit %d: %s", code, &problems)
	}
	if out.String() == parts[3] {
		return
	}
	if os.Getenv("UPDATE") == "" {
		t.Fatalf("the README shows another answer than the program gives (UPDATE=1 rewrites it):\n%s", &out)
	}
	parts[3] = out.String()
	if err := os.WriteFile(path, []byte(strings.Join(parts, "```\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestReadmeCommands runs every command that the README shows, in order and in one folder with the sample files. Each must
// end with the exit code that "$ echo $?" below it shows, else 0, and print what is shown; a line "..." stands for lines
// left out. Outputs that hold paths or sizes of files come after <!-- varies -->, and files that a reader writes after
// <!-- file: NAME -->.
//
// UPDATE=1 puts the line that is printed there, or after "..." the most similar one, in the place of each that is not
// printed; read the difference before you commit it.
func TestReadmeCommands(t *testing.T) {
	path, err := filepath.Abs("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	update := os.Getenv("UPDATE") != ""
	t.Setenv("COLUMNS", "")
	t.Setenv("NO_COLOR", "1")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir()) // no settings of whoever runs the test
	dir := t.TempDir()
	readmeSamples(t, dir)
	t.Chdir(dir)

	shown := 0
	for _, b := range readmeBlocks(lines) {
		if b.file != "" {
			if err := os.WriteFile(b.file, []byte(strings.Join(b.lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for _, s := range sessionsOf(b.lines) {
			shown++
			if !s.slow() {
				s.run(t, b.varies, update)
			}
		}
	}
	if after := strings.Join(lines, "\n"); update && after != string(text) {
		if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if shown < 25 {
		t.Errorf("only %d commands found: the README's form has changed", shown)
	}
}

// readmeSamples copies what the README's commands read: recorded logs and traces, and files of the scripts.
func readmeSamples(t *testing.T, dir string) {
	t.Helper()
	if err := os.CopyFS(dir, os.DirFS(evidenceData)); err != nil {
		t.Fatal(err)
	}
	for _, sample := range []struct{ script, file string }{
		{"calibrate.txtar", "runs.jsonl"},
		{"models_own.txtar", "mine/config.json"},
	} {
		script, err := os.ReadFile(filepath.Join("testdata/script", sample.script))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, ok := strings.Cut(string(script), "\n-- "+sample.file+" --\n")
		if !ok {
			t.Fatalf("%s has no %s", sample.script, sample.file)
		}
		content, _, _ := strings.Cut(rest, "\n-- ")
		name := filepath.Join(dir, filepath.FromSlash(sample.file))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// readmeBlock is a console block, or a file. Its lines are those of the README, so that they can be rewritten.
type readmeBlock struct {
	lines  []string
	varies bool
	file   string
}

// readmeBlocks are the console blocks and the files of the README.
func readmeBlocks(lines []string) (blocks []readmeBlock) {
	var comment string
	for i := 0; i < len(lines); i++ {
		if text, ok := strings.CutPrefix(lines[i], "<!-- "); ok {
			comment = strings.TrimSuffix(text, " -->")
		}
		if !strings.HasPrefix(lines[i], "```") {
			continue
		}
		n := slices.Index(lines[i+1:], "```")
		if n < 0 {
			break
		}
		file, isFile := strings.CutPrefix(comment, "file: ")
		switch {
		case isFile:
			blocks = append(blocks, readmeBlock{lines: lines[i+1 : i+1+n], file: file})
		case lines[i] == "```console":
			blocks = append(blocks, readmeBlock{lines: lines[i+1 : i+1+n], varies: comment == "varies"})
		}
		comment = ""
		i += n + 1
	}
	return blocks
}

// session is one command with the output shown below it.
type session struct {
	command string
	code    int
	output  []string
}

func sessionsOf(lines []string) (all []session) {
	for i := 0; i < len(lines); {
		command, _ := strings.CutPrefix(lines[i], "$ ")
		for i++; strings.HasSuffix(command, `\`) && i < len(lines); i++ {
			command = strings.TrimSuffix(command, `\`) + strings.TrimSpace(lines[i])
		}
		start := i
		for i < len(lines) && !strings.HasPrefix(lines[i], "$ ") {
			i++
		}
		if command == "echo $?" && len(all) > 0 && start < i {
			all[len(all)-1].code, _ = strconv.Atoi(lines[start])
			continue
		}
		all = append(all, session{command: command, output: lines[start:i]})
	}
	return all
}

// slow tells commands that take seconds, or do not end, and have tests of their own.
func (s *session) slow() bool {
	return strings.HasPrefix(s.command, "moeplan serve") || strings.HasPrefix(s.command, "moeplan validate --ranking")
}

func (s *session) run(t *testing.T, varies, update bool) {
	t.Helper()
	command, file, redirected := strings.Cut(s.command, " > ")
	words, err := shell.Fields(command, nil)
	if err != nil || len(words) == 0 || words[0] != "moeplan" {
		t.Errorf("%s: not a command that can be run: %v", s.command, err)
		return
	}
	var out, problems bytes.Buffer
	code := run(context.Background(), words[1:], &out, &problems)
	if code != s.code {
		t.Errorf("%s: exit %d, the README says %d: %s", s.command, code, s.code, &problems)
	}
	if redirected {
		if err := os.WriteFile(strings.TrimSpace(file), out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		out.Reset()
	}
	if varies {
		return
	}
	printed := strings.Split(strings.TrimRight(out.String()+problems.String(), "\n"), "\n")
	at, gap := 0, false
	for i, want := range s.output {
		if want == "..." {
			gap = true
			continue
		}
		candidates := printed[at:min(at+1, len(printed))]
		if gap {
			candidates = printed[at:]
		}
		gap = false
		found := slices.IndexFunc(candidates, func(line string) bool { return strings.TrimRight(line, " ") == want })
		if found < 0 && update && len(candidates) > 0 {
			nearest := slices.MinFunc(candidates, func(a, b string) int {
				return levenshtein.ComputeDistance(a, want) - levenshtein.ComputeDistance(b, want)
			})
			s.output[i] = strings.TrimRight(nearest, " ")
			found = slices.Index(candidates, nearest)
		}
		if found < 0 {
			t.Errorf("%s: the README shows a line that is not printed there:\n%s\nbut\n%s", s.command, want, strings.Join(candidates, "\n"))
			return
		}
		at += found + 1
	}
	if left := strings.Join(printed[at:], "\n"); left != "" && !gap {
		t.Errorf("%s: the README leaves lines out without saying so (...):\n%s", s.command, left)
	}
}

// TestReadmeMemoryTable holds the groups of the accuracy table against moeplan validate.
func TestReadmeMemoryTable(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("COLUMNS", "")
	code, out, problems := command(t, "validate")
	if code != 0 {
		t.Fatal(problems)
	}
	_, table, _ := strings.Cut(string(text), "| group |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) < 12 {
		t.Fatalf("%d rows in the memory table", len(rows))
	}
	for _, row := range rows[2:] {
		cells := strings.FieldsFunc(row, func(r rune) bool { return strings.ContainsRune("|,% ", r) })
		digit := slices.IndexFunc(cells, func(c string) bool { return c == "-" || c[0] >= '0' && c[0] <= '9' })
		name, want := strings.Join(cells[:digit], " "), cells[digit:]
		var have []string
		for line := range strings.Lines(out) {
			if rest, ok := strings.CutPrefix(line, name+" "); ok && strings.HasPrefix(rest, " ") {
				f := strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune("% \n", r) })
				if f[0] == "-" { // nothing was measured after a step
					have = append([]string{"-", "-"}, f[4], f[6], f[7], f[8])
				} else {
					have = []string{f[0], f[1], f[2], f[4], f[6], f[7], f[8]}
				}
				break
			}
		}
		if !slices.Equal(have, want) {
			t.Errorf("%s: the README shows %v, moeplan validate %v", name, want, have)
		}
	}
}

// TestWidth: what is printed fits what the reader has, but for layouts, commands and flags, which are to be copied. Where the
// width is not known, the screen takes 100 columns, and tables are whole, as a program reads them.
func TestWidth(t *testing.T) {
	const question, of = "--gpus 256 --model qwen3-235b", "tp2 pp8 vpp6 ep32 recompute=moe_act,layernorm"
	logs := filepath.Join("..", "..", "layout", "evidence", "testdata") + string(filepath.Separator)
	for _, c := range []struct {
		arguments string   // words
		layouts   []string // behind them
		reason    string
	}{
		{question, nil, "the main screen"},
		{"--gpus 256 --model deepseek-v3 --gpu gb200", nil, "other columns are wide"},
		{"--gpus 1024 --model deepseek-v3 --wide", nil, "more ranks"},
		{"--gpus 64 --model llama3-70b", nil, "a dense model"},
		{"--gpus 8 --model deepseek-v3", nil, "nothing fits"},
		{"--gpus 8 --model qwen3-30b-a3b", nil, "nothing fits, and every way out has a price in words"},
		{"--gpus 16384 --model kimi-k2 --gpu gb300 --grads bf16 --moments bf16", nil, "large numbers"},
		{question + " --explain 1", nil, "the story of a plan"},
		{question + " --base", []string{of}, "a layout of one's own"},
		{"next " + question, []string{of}, "experiments"},
		{"mem " + question, []string{of}, "the bytes of a layout"},
		{"diff " + question, []string{of, "tp4 pp8 vpp8 ep16 mbs2 recompute=moe_act"}, "two layouts"},
		{"workflow " + question, nil, "the checklist"},
		{"overlap " + logs + "trace.json.gz --log " + logs + "faster.log --gpu h100", nil, "a trace"},
		{"evidence --regression " + logs + "base.log " + logs + "faster.log", nil, "two runs"},
	} {
		widths := map[string]int{"80": 80}
		if strings.HasPrefix(c.arguments, "--") {
			widths[""] = 100
		}
		for columns, width := range widths {
			t.Setenv("COLUMNS", columns)
			var out, problems bytes.Buffer
			run(context.Background(), append(strings.Fields(c.arguments), c.layouts...), &out, &problems)
			if out.Len() == 0 {
				t.Fatalf("%s: %s", c.arguments, &problems)
			}
			for line := range strings.Lines(out.String()) {
				long := strings.Contains(line, "split=") || width < 100 && strings.Contains(line, " tp") || strings.HasSuffix(line, "\\\n") ||
					strings.HasPrefix(strings.TrimLeft(line, " "), "flags: --")
				if n := len([]rune(strings.TrimRight(line, "\n"))); n > width && !long {
					t.Errorf("%s (%s): %d columns of %d: %s", c.arguments, c.reason, n, width, line)
				}
				if strings.TrimRight(line, "\n") != strings.TrimRight(line, " \n") {
					t.Errorf("%s (%s): trailing blanks: %q", c.arguments, c.reason, line)
				}
			}
		}
	}
}
