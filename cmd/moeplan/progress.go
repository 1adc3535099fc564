package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// patience is how long an answer may take before it says that it is still being looked for.
const patience = time.Second

// watched says on a terminal that work is going on once it takes longer than patience, and takes the line away before
// anything else is written. The function that it returns ends that; it may be called more than once.
func watched(ctx context.Context, err io.Writer) func() {
	if f, ok := err.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	return watch(ctx, err, patience)
}

// watch is watched for any writer.
func watch(ctx context.Context, w io.Writer, every time.Duration) func() {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				if n > 1 {
					fmt.Fprint(w, "\r\x1b[K")
				}
				return
			case <-ticks.C:
				fmt.Fprintf(w, "\rstill looking, %s", time.Duration(n)*every)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
