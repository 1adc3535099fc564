package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// locked is a buffer that two goroutines may use.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// The line comes when work takes long, and is gone before the answer; short work and files see nothing of it.
func TestWatch(t *testing.T) {
	var w locked
	stop := watch(context.Background(), &w, time.Millisecond)
	for !strings.Contains(w.String(), "still looking") {
		time.Sleep(time.Millisecond)
	}
	stop()
	stop()
	if !strings.HasSuffix(w.String(), "\r\x1b[K") {
		t.Errorf("the line stays: %q", w.String())
	}
	var quiet locked
	watch(context.Background(), &quiet, time.Hour)()
	watched(context.Background(), &quiet)()
	if quiet.String() != "" {
		t.Errorf("short work says %q", quiet.String())
	}
}
