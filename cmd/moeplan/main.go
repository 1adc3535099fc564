// Command moeplan finds the Megatron-Core parallel layout to train a model with on a given number of GPUs,
// predicts the memory of every GPU, shows where communication travels, and prints the commands that check it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, func() { leave(stop) })
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// errInterrupted is what Ctrl-C ends a command with.
var errInterrupted = errors.New("interrupted")

// leave ends the program after Ctrl-C: a second one at once, the first after a moment in which a command can end by itself. One
// that waits for standard input, or reads a file without an end, never does.
func leave(stop func()) {
	stop()
	time.Sleep(time.Second)
	fmt.Fprintln(os.Stderr, "moeplan:", errInterrupted)
	os.Exit(exitFailure)
}
