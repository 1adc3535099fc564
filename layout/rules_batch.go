package layout

const batchPositive RuleID = "batch-positive"

// batchRules are about global and micro-batch.
var batchRules = []Rule{
	{
		ID: batchPositive, Constraint: "N2", Severity: Error, NoticedAt: AtArguments,
		Title:  "micro-batch and global batch are at least 1",
		Why:    "A step works through at least one sequence.",
		Source: "megatron/training/arguments.py:694",
		axes:   axisMBS,
		broken: func(s *subject) bool { return s.l.MicroBatchSize < 1 || s.l.GlobalBatchSize < 1 },
		explain: func(s *subject) finding {
			return found(nil, "micro-batch %d and global batch %d: both must be at least 1", s.l.MicroBatchSize, s.l.GlobalBatchSize)
		},
	},
	{
		ID: "batch-divides", Constraint: "79", Severity: Error, NoticedAt: AtBatch,
		Title:  "MBS * DP divides the global batch",
		Why:    "Every data parallel rank works through the same whole number of micro-batches. Validation uses the same batch by default, so a launch already notices among the arguments (80).",
		Source: "megatron/core/num_microbatches_calculator.py:381",
		axes:   axisTP | axisCP | axisPP | axisMBS,
		broken: func(s *subject) bool {
			l := s.l
			dp := l.DP()
			return l.MicroBatchSize > 0 && l.GlobalBatchSize > 0 && dp > 0 &&
				(l.GlobalBatchSize%dp != 0 || l.GlobalBatchSize/dp%l.MicroBatchSize != 0)
		},
		explain: func(s *subject) finding {
			l := s.l
			dp := l.DP()
			repairs := words("gbs=", NearestMultiples(l.MicroBatchSize*dp, l.GlobalBatchSize))
			if l.GlobalBatchSize%dp == 0 {
				repairs = append(words("mbs", NearestDivisors(l.GlobalBatchSize/dp, l.MicroBatchSize)), repairs...)
			}
			return found(repairs, "global batch %d is not divisible by MBS %d * DP %d = %d", l.GlobalBatchSize, l.MicroBatchSize, dp, l.MicroBatchSize*dp)
		},
	},
}

// microbatches returns NumMicrobatches where it is a whole number of at least 1.
func microbatches(l *Layout) (int, bool) {
	dp := l.DP()
	if l.MicroBatchSize < 1 || l.GlobalBatchSize < 1 || dp < 1 || l.GlobalBatchSize%dp != 0 || l.GlobalBatchSize/dp%l.MicroBatchSize != 0 {
		return 0, false
	}
	return l.GlobalBatchSize / dp / l.MicroBatchSize, true
}
