package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
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

// TestWidth: the screen fits what the reader has, 100 columns if that is not known, but for layouts and commands that are
// longer by themselves.
func TestWidth(t *testing.T) {
	for _, question := range []string{
		"--gpus 256 --model qwen3-235b",
		"--gpus 256 --model deepseek-v3 --gpu gb200",
		"--gpus 1024 --model deepseek-v3 --wide",
		"--gpus 64 --model llama3-70b",
		"--gpus 8 --model deepseek-v3",
		"--gpus 16384 --model kimi-k2 --gpu gb300 --grads bf16 --moments bf16",
	} {
		for columns, width := range map[string]int{"": 100, "80": 80} {
			t.Setenv("COLUMNS", columns)
			var out, problems bytes.Buffer
			run(context.Background(), strings.Fields(question), &out, &problems)
			for line := range strings.Lines(out.String()) {
				long := strings.Contains(line, "split=") || width < 100 && strings.Contains(line, " tp") || strings.HasSuffix(line, "\\\n")
				if n := len([]rune(strings.TrimRight(line, "\n"))); n > width && !long {
					t.Errorf("%s: %d columns of %d: %s", question, n, width, line)
				}
				if strings.TrimRight(line, "\n") != strings.TrimRight(line, " \n") {
					t.Errorf("%s: trailing blanks: %q", question, line)
				}
			}
		}
	}
}
