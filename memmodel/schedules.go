package memmodel

import "sync"

// Schedules remembers which micro-batches are in flight when, by schedule. That depends on pipeline, interleaving and
// micro-batches alone, so that estimators of any models and runs may share one, from any goroutines: a question that prices
// its layouts several times simulates each schedule once.
type Schedules struct {
	mu    sync.Mutex
	known map[scheduleKey][]moment
}

// NewSchedules returns an empty one.
func NewSchedules() *Schedules { return &Schedules{known: make(map[scheduleKey][]moment)} }

// of simulates a schedule, or returns what is known. Two goroutines may simulate the same one; they find the same.
func (s *Schedules) of(k scheduleKey) []moment {
	s.mu.Lock()
	steps, ok := s.known[k]
	s.mu.Unlock()
	if ok {
		return steps
	}
	steps = moments(k)
	s.mu.Lock()
	s.known[k] = steps
	s.mu.Unlock()
	return steps
}

// Share makes the estimator look up schedules in s, and remember there those that it simulates. It still is for one
// goroutine alone.
func (e *Estimator) Share(s *Schedules) { e.shared = s }
