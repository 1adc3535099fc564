package folding

// Order is a rank order string: axis names joined by "-", first axis varies fastest.
type Order string

const (
	// DefaultOrder is Megatron's own (NVIDIA/Megatron-LM@d98e8a64dd megatron/core/parallel_state.py,
	// initialize_model_parallel).
	DefaultOrder Order = "tp-cp-ep-dp-pp"
	// TPPPDPOrder is what --use-tp-pp-dp-mapping selects (megatron/training/initialize.py:395).
	TPPPDPOrder Order = "tp-cp-ep-pp-dp"
)
