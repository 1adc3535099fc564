// Command moeplan finds the Megatron-Core parallel layout to train a model with on a given number of GPUs,
// predicts the memory of every GPU, shows where communication travels, and prints the commands that check it.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
