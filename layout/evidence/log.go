package evidence

import (
	"bytes"
	"cmp"
	"io"
	"slices"
)

// Bounds of what a Log keeps. What is more is counted.
const (
	maxIterations = 1 << 17
	maxRanks      = 1 << 16
	maxEvents     = 1 << 12
	maxOOMs       = 1 << 10
	maxShards     = 1 << 16
	maxArguments  = 1 << 12
	maxValue      = 4 << 10
	maxTheories   = 16
)

// RankMemory is what one rank reported.
type RankMemory struct {
	Rank int `json:"rank"`
	// First and Last are the first and the last report after an iteration, or around a checkpoint if there is no other.
	First   MemoryReport `json:"first"`
	Last    MemoryReport `json:"last"`
	Reports int          `json:"reports"`
}

// Log is what the lines of one log show.
type Log struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"` // unpacked
	Lines int64  `json:"lines"`
	// LongLines are those of which only the first 64 KiB were read.
	LongLines int64 `json:"long_lines"`
	// Cut says that the file ends within a line or within its compression; the unfinished line was not read.
	Cut bool `json:"cut"`

	Memory []RankMemory `json:"memory"` // by rank
	// Iterations are the last ones, in the order of the log; Dropped counts earlier ones.
	Iterations  []Iteration       `json:"iterations"`
	Dropped     int               `json:"dropped_iterations"`
	StepTimes   []StepTime        `json:"step_times"`
	OutOfMemory []OutOfMemory     `json:"out_of_memory"`
	OOMLines    int               `json:"out_of_memory_lines"`
	Theoretical []Theoretical     `json:"theoretical"`
	Parameters  []ShardParameters `json:"parameters"`
	// Totals are the parameter counts that rank 0 prints, in 1e9.
	Totals map[string]float64 `json:"totals"`
	// Versions are those of the frameworks, as far as printed.
	Versions map[string]string `json:"versions"`
	// Arguments is the dump of the configuration, Megatron-LM's or Megatron-Bridge's under the same names. It says what was asked for, never what happened.
	Arguments map[string]string `json:"-"`
	// Conflicts are arguments that several dumps in the log give differently.
	Conflicts []string `json:"argument_conflicts"`
	Events    []Event  `json:"events"`
}

// logReader holds what is needed while a log is read.
type logReader struct {
	log     Log
	memory  map[int]*RankMemory
	shards  map[[2]int]ShardParameters
	ring    []Iteration
	oldest  int
	last    int // iteration
	listing bool
	bridge  bridgeConfig
}

// ReadLog reads a log of Megatron-LM or Megatron-Bridge, gzipped or not. name is for messages. Lines of several ranks and
// several runs may be mixed; lines of any other program are passed over. It fails on what src returns, on damaged
// compression and on more than 256 GiB.
func ReadLog(name string, src io.Reader) (*Log, error) {
	r, err := unpacked(src)
	if err != nil {
		return nil, err
	}
	l := &logReader{log: Log{Name: name, Totals: map[string]float64{}, Versions: map[string]string{}, Arguments: map[string]string{}},
		memory: map[int]*RankMemory{}, shards: map[[2]int]ShardParameters{}}
	l.bridge.put = l.put
	lines := newLineReader(r)
	for {
		line, ended, ok := lines.next()
		if !ok {
			break
		}
		if !ended {
			l.log.Cut = true
		}
		l.line(line, ended, lines.number)
	}
	if lines.err != nil {
		return nil, lines.err
	}
	l.log.Bytes, l.log.Lines, l.log.LongLines = lines.bytes, lines.number, lines.long
	l.log.Cut = l.log.Cut || lines.cut
	return l.finish(), nil
}

// Words that tell which parsers a line is for.
var (
	wordMemory     = []byte("memory (")
	wordIteration  = []byte("iteration ")
	wordElapsed    = []byte("elapsed time")
	wordOOM        = []byte("ut of memory")
	wordOOMCode    = []byte("OUT_OF_MEMORY")
	wordStepTime   = []byte("Step Time : ")
	wordParameters = []byte("arameters ")
	wordTheory     = []byte("Theoretical memory")
	wordArguments  = []byte(" arguments -")
	wordTarget     = []byte(bridgeTarget)
	wordSummary    = []byte(bridgeSummary)
	wordVersion    = []byte(" version ")
)

func (l *logReader) line(line []byte, ended bool, number int64) {
	if ended && (l.bridge.form != 0 || bytes.HasPrefix(line, wordTarget) || bytes.HasPrefix(line, wordSummary)) && l.bridge.line(string(line)) {
		return
	}
	if len(line) < 8 {
		return
	}
	if bytes.IndexByte(line, '|') >= 0 {
		if bytes.Contains(line, wordMemory) {
			for _, m := range parseMemory(line, ended) {
				m.Line = number
				l.report(m)
			}
		}
		if bytes.Contains(line, wordElapsed) && bytes.Contains(line, wordIteration) {
			if it, ok := parseIteration(string(line), ended); ok {
				it.Line = number
				l.iteration(it)
			}
			return
		}
	}
	l.argument(line, ended)
	if bytes.Contains(line, wordOOM) || bytes.Contains(line, wordOOMCode) {
		if o, ok := parseOOM(string(line)); ok && ended {
			l.outOfMemory(o, number)
		}
	}
	if !ended {
		return
	}
	if e, ok := parseEvent(line); ok {
		if e.Line = number; e.Kind != CheckpointLoaded {
			e.Iteration = l.last
		}
		if len(l.log.Events) < maxEvents {
			l.log.Events = append(l.log.Events, e)
		}
	}
	if bytes.Contains(line, wordStepTime) {
		if s, ok := parseStepTime(string(line)); ok && len(l.log.StepTimes) < maxIterations {
			s.Line = number
			l.log.StepTimes = append(l.log.StepTimes, s)
		}
	}
	if bytes.Contains(line, wordParameters) {
		if s, ok := parseShard(string(line), ended); ok && len(l.shards) < maxShards {
			s.Line = number
			l.shards[[2]int{s.Tensor, s.Pipeline}] = s
		}
		if name, v, ok := parseTotal(string(line)); ok {
			l.log.Totals[name] = v
		}
	}
	if bytes.Contains(line, wordTheory) {
		if t, ok := parseTheoretical(string(line)); ok && len(l.log.Theoretical) < maxTheories {
			t.Line = number
			l.log.Theoretical = append(l.log.Theoretical, t)
		}
	}
	if bytes.Contains(line, wordVersion) {
		if name, v, ok := parseVersion(string(line)); ok {
			l.log.Versions[name] = clipped(v)
		}
	}
}

func (l *logReader) report(m MemoryReport) {
	rank := int(m.Rank)
	r := l.memory[rank]
	switch {
	case r == nil && len(l.memory) >= maxRanks:
	case r == nil:
		l.memory[rank] = &RankMemory{Rank: rank, First: m, Last: m, Reports: 1}
	default:
		r.Reports++
		if m.Iteration >= 0 || r.Last.Iteration < 0 {
			if r.First.Iteration < 0 {
				r.First = m
			}
			r.Last = m
		}
	}
}

func (l *logReader) iteration(it Iteration) {
	if n := len(l.ring); n > 0 {
		if before := &l.ring[(l.oldest+n-1)%n]; before.Number == it.Number && before.Of == it.Of && before.Seconds == it.Seconds {
			return // the same line, twice in the log
		}
	}
	l.last = it.Number
	if len(l.ring) < maxIterations {
		l.ring = append(l.ring, it)
		return
	}
	l.ring[l.oldest] = it
	l.oldest = (l.oldest + 1) % maxIterations
	l.log.Dropped++
}

// outOfMemory keeps one error a rank: launchers repeat them in their summaries.
func (l *logReader) outOfMemory(o OutOfMemory, number int64) {
	l.log.OOMLines++
	o.Iteration, o.Line = l.last, number
	for i := range l.log.OutOfMemory {
		if l.log.OutOfMemory[i].Rank == o.Rank {
			return
		}
	}
	if len(l.log.OutOfMemory) < maxOOMs {
		l.log.OutOfMemory = append(l.log.OutOfMemory, o)
	}
}

// argument follows the dump of arguments from its title to its end.
func (l *logReader) argument(line []byte, ended bool) {
	if bytes.Contains(line, wordArguments) {
		l.listing = !bytes.Contains(line, []byte("end of "))
		return
	}
	if !l.listing || !ended {
		return
	}
	name, value, ok := parseArgument(string(line))
	if ok {
		l.put(name, value)
	}
}

func (l *logReader) finish() *Log {
	for _, r := range l.memory {
		l.log.Memory = append(l.log.Memory, *r)
	}
	slices.SortFunc(l.log.Memory, func(a, b RankMemory) int { return a.Rank - b.Rank })
	for _, s := range l.shards {
		l.log.Parameters = append(l.log.Parameters, s)
	}
	slices.SortFunc(l.log.Parameters, func(a, b ShardParameters) int {
		return cmp.Or(a.Pipeline-b.Pipeline, a.Tensor-b.Tensor)
	})
	l.log.Iterations = append(l.ring[l.oldest:len(l.ring):len(l.ring)], l.ring[:l.oldest]...)
	slices.Sort(l.log.Conflicts)
	return &l.log
}

// Steady reports whether a rank's last report comes after the second iteration of its process or later. The first iteration
// makes the optimizer's state at its end, so that a peak reported then lacks it.
func (l *Log) Steady(r *RankMemory) bool {
	if r.Last.Iteration > r.First.Iteration {
		return true
	}
	start := 0
	for i := range l.Events {
		if l.Events[i].Kind == CheckpointLoaded {
			start = l.Events[i].Iteration
		}
	}
	return int(r.Last.Iteration) >= start+2
}

// Fake reports whether the run's configuration asks for the fake process group, whose collectives do nothing.
func (l *Log) Fake() bool { return l.Arguments["fake_process_group"] == "True" }

// IsProfiled reports whether a profiler ran, by the configuration or by what it printed, and where that shows.
func (l *Log) IsProfiled() (string, bool) {
	for i := range l.Events {
		if l.Events[i].Kind == Profiled {
			return l.Events[i].Text, true
		}
	}
	if l.Arguments["profile"] == "True" {
		return "--profile", true
	}
	return "", false
}

// LastRun returns the iterations of the last run in the log: those since the number last went back, as it does when a job
// restarts, and how many runs there are.
func (l *Log) LastRun() (its []Iteration, runs int) {
	from := 0
	runs = min(1, len(l.Iterations))
	for i := 1; i < len(l.Iterations); i++ {
		if l.Iterations[i].Number <= l.Iterations[i-1].Number {
			from, runs = i, runs+1
		}
	}
	return l.Iterations[from:], runs
}
