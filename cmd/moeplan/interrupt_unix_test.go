//go:build unix

package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestInterruptedReader: Ctrl-C ends a command that waits for standard input, which no context can wake.
func TestInterruptedReader(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "moeplan") // what TestMain takes for the program
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), name, "batch")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	cmd.Stderr = &told
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "no request\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it runs, and waits for the next line
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailure {
		t.Errorf("%v, want exit code %d", err, exitFailure)
	}
	if told.String() != "moeplan: interrupted\n" {
		t.Errorf("said %q", told.String())
	}
}

// TestWriteThroughPipe: what is no file is written to and stays; -o /dev/stdout as root would replace the device.
func TestWriteThroughPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		read <- string(data)
	}()
	if err := writeWhole(name, []byte("it")); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "it" {
		t.Errorf("the pipe carried %q", got)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().IsRegular() {
		t.Errorf("the pipe is gone: %v %v", info, err)
	}
}
