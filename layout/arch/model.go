package arch

// Model is the shape of one model: everything that decides how many parameters it has, what its layers
// save for the backward pass and how many FLOPs a token costs, and nothing about how it is trained.
//
// Field names and JSON keys are Megatron-LM's flag names. Sizes are elements (or counts), never bytes.
// The zero value is not a model; Lookup returns the catalogue's.
type Model struct {
	ID           string `json:"id"`           // catalogue name, lower case: "qwen3-235b-a22b"
	HFID         string `json:"hf_id"`        // Hugging Face repository: "Qwen/Qwen3-235B-A22B"
	Architecture string `json:"architecture"` // config.json architectures[0]
	Kind         Kind   `json:"kind"`         // gpt or hybrid

	NumLayers         int `json:"num_layers"`          // decoder layers, MTP layers not counted
	HiddenSize        int `json:"hidden_size"`         // width of the residual stream
	FFNHiddenSize     int `json:"ffn_hidden_size"`     // of dense MLP layers
	NumAttentionHeads int `json:"num_attention_heads"` // query heads
	NumQueryGroups    int `json:"num_query_groups"`    // KV heads; MLA ignores it
	KVChannels        int `json:"kv_channels"`         // head dimension; MLA ignores it
	VocabSize         int `json:"vocab_size"`          // unpadded
	// MakeVocabSizeDivisibleBy times TP is what the vocabulary is padded to.
	MakeVocabSizeDivisibleBy int `json:"make_vocab_size_divisible_by"`
	// MaxPositionEmbeddings is 0 where the sources do not say.
	MaxPositionEmbeddings int `json:"max_position_embeddings"`

	TiedEmbeddings bool `json:"tied_embeddings"` // output layer shares the word embedding
	// LearnedPositions is --position-embedding-type learned_absolute: a table of MaxPositionEmbeddings rows.
	// It is Megatron's default for a command line that does not name a type; no catalogue model uses it.
	LearnedPositions bool `json:"learned_positions"`

	MoE             *MoE             `json:"moe"`              // nil: dense model
	MLA             *MLA             `json:"mla"`              // nil: MHA or GQA
	LinearAttention *LinearAttention `json:"linear_attention"` // nil: none
	Mamba           *Mamba           `json:"mamba"`            // nil: none
	SlidingWindow   *SlidingWindow   `json:"sliding_window"`   // nil: full attention everywhere

	QKNorm              QKNorm        `json:"qk_norm"`               // norm of queries and keys; "" for none
	QKVBias             bool          `json:"qkv_bias"`              // --add-qkv-bias (implied by LinearBias)
	LinearBias          bool          `json:"linear_bias"`           // no --disable-bias-linear
	AttentionOutputGate bool          `json:"attention_output_gate"` // attention has an output gate
	SoftmaxType         string        `json:"softmax_type"`          // "" (vanilla) or "learnable": one sink per head
	Activation          Activation    `json:"activation"`            // of MLPs
	Normalization       Normalization `json:"normalization"`         // RMSNorm or LayerNorm

	MTPNumLayers int `json:"mtp_num_layers"` // multi-token prediction depths
	// MTPRepeatedLayer is --mtp-use-repeated-layer: one layer's weights serve all MTPNumLayers depths.
	MTPRepeatedLayer bool `json:"mtp_use_repeated_layer"`

	// HybridLayerPattern holds one letter a layer (M Mamba, * attention, E MoE, - MLP, G gated delta net)
	// when Kind is Hybrid; MTPHybridPattern is that of one MTP depth.
	HybridLayerPattern string `json:"hybrid_layer_pattern"`
	MTPHybridPattern   string `json:"mtp_hybrid_pattern"`

	// MegatronFlags is the architecture as Megatron-LM flags, as the sources give it: parsed and validated
	// under the upstream parser at NVIDIA/Megatron-LM@d98e8a64dd when it was recorded.
	MegatronFlags []string `json:"megatron_flags"`
	Launcher      string   `json:"launcher"` // pretrain_gpt.py or pretrain_hybrid.py

	Sources    []string `json:"sources"`    // where the shapes come from
	Unverified []string `json:"unverified"` // fields that no primary source confirms
	Notes      []string `json:"notes"`      // what else a reader must know

	// RecordedTotal and RecordedActive are the parameter counts that the source file states, with
	// unpadded vocabulary and without MTP layers; nil means unknown. Tests compare Parameters with them.
	RecordedTotal  *int64 `json:"computed_params_total"`
	RecordedActive *int64 `json:"computed_params_active"`
}

// Kind separates models whose layers follow one spec from those written as a layer pattern.
type Kind string

const (
	GPT    Kind = "gpt"    // pretrain_gpt.py: num_layers decoder layers, each attention + MLP or MoE
	Hybrid Kind = "hybrid" // pretrain_hybrid.py: HybridLayerPattern, each entry a layer of its own
)

// MoE is the routed and shared expert part of a model.
type MoE struct {
	NumExperts       int  `json:"num_experts"`                     // routed experts of a layer
	TopK             int  `json:"topk"`                            // --moe-router-topk
	FFNHiddenSize    int  `json:"moe_ffn_hidden_size"`             // width of a routed expert
	SharedFFNSize    int  `json:"shared_expert_intermediate_size"` // all shared experts together; 0: none
	SharedExpertGate bool `json:"shared_expert_gate"`              // shared experts are gated
	LatentSize       int  `json:"latent_size"`                     // --moe-latent-size: routed experts work on this width; 0: hidden_size

	// LayerFreq is --moe-layer-freq as written: an int N (layer i is MoE iff i % N == 0) or a list expression
	// such as "([0]*3+[1]*58)". Layers resolves it.
	LayerFreq LayerFreq `json:"moe_layer_freq"`

	RouterScoreFunction string  `json:"router_score_function"`      // softmax or sigmoid
	RouterPreSoftmax    bool    `json:"router_pre_softmax"`         // softmax before the selection
	RouterNumGroups     int     `json:"router_num_groups"`          // 0: no group-limited routing
	RouterGroupTopK     int     `json:"router_group_topk"`          // groups that are selected; 0: none
	RouterScalingFactor float64 `json:"router_topk_scaling_factor"` // 0: none
	RouterExpertBias    bool    `json:"router_expert_bias"`         // a bias shifts the scores (aux-loss-free balancing)
	LoadBalancing       string  `json:"load_balancing"`             // aux_loss, seq_aux_loss, none, ...
	AuxLossCoeff        float64 `json:"aux_loss_coeff"`             // weight of the balancing loss
}

// MLA is multi-latent attention.
type MLA struct {
	QLoraRank       int `json:"q_lora_rank"`         // 0: queries are projected directly
	KVLoraRank      int `json:"kv_lora_rank"`        // width of the latent keys and values
	QKHeadDim       int `json:"qk_head_dim"`         // per head, without the rope part
	QKPosEmbHeadDim int `json:"qk_pos_emb_head_dim"` // rope part, shared by all heads on the key side
	VHeadDim        int `json:"v_head_dim"`          // of the values, per head
}

// LinearAttention is a gated delta net beside every Freq-th full attention layer.
type LinearAttention struct {
	Variant       string `json:"variant"`         // gdn
	Freq          int    `json:"freq"`            // layer i (0-based) is full attention iff (i+1) % Freq == 0
	ConvKernelDim int    `json:"conv_kernel_dim"` // width of the convolution
	KeyHeadDim    int    `json:"key_head_dim"`    // per head
	ValueHeadDim  int    `json:"value_head_dim"`  // per head
	NumKeyHeads   int    `json:"num_key_heads"`   // key heads
	NumValueHeads int    `json:"num_value_heads"` // value heads
}

// Mamba is the Mamba-2 mixer of a hybrid model.
type Mamba struct {
	NumHeads   int `json:"num_heads"`   // heads
	HeadDim    int `json:"head_dim"`    // per head
	StateDim   int `json:"state_dim"`   // state of a head
	NumGroups  int `json:"num_groups"`  // groups that share B and C
	ConvKernel int `json:"conv_kernel"` // width of the convolution
}

// SlidingWindow limits attention to Window tokens on all layers but every SkipFreq-th.
type SlidingWindow struct {
	Window   int    `json:"window"`    // tokens that a windowed layer sees
	Flag     string `json:"flag"`      // as a Megatron flag, for instance "--window-size 127,0"
	SkipFreq int    `json:"skip_freq"` // every so many layers one sees all; 0: none
}

// QKNorm says how queries and keys are normalised before attention.
type QKNorm string

const (
	NoQKNorm              QKNorm = ""
	PerHeadQKNorm         QKNorm = "per-head RMSNorm"               // --qk-layernorm, kv_channels weights each
	MLALatentNorm         QKNorm = "MLA latent norms"               // --qk-layernorm with MLA
	L2QKNorm              QKNorm = "L2 (qk_l2_norm)"                // no weights
	FullDimQKNorm         QKNorm = "full-dim RMSNorm (custom spec)" // heads*kv_channels weights, not in Megatron's own spec
	FullDimQKNormPerLayer QKNorm = "full-dim RMSNorm per layer (custom spec)"
)

// Activation is the MLP's activation function.
type Activation string

const (
	SwiGLU      Activation = "swiglu"
	QuickGEGLU  Activation = "quick_geglu"
	SquaredReLU Activation = "squared_relu"
	GELU        Activation = "gelu"
)

// Gated reports whether fc1 has two halves (gate and value), so that its output is twice the ffn width.
func (a Activation) Gated() bool { return a == SwiGLU || a == QuickGEGLU }

// Normalization is the layer norm kind.
type Normalization string

const (
	RMSNorm   Normalization = "RMSNorm"
	LayerNorm Normalization = "LayerNorm"
)

// Mixer is what stands before the MLP in a layer.
type Mixer uint8

const (
	NoMixer     Mixer = iota // hybrid layers that are only an MLP or a MoE
	GQA                      // MHA and grouped-query attention
	MLAttention              // multi-latent attention
	GatedDeltaNet
	MambaMixer
)

// Feedforward is the MLP part of a layer.
type Feedforward uint8

const (
	NoFeedforward Feedforward = iota // hybrid layers that are only a mixer
	DenseMLP
	MoEMLP
)

// Layer is the kind of one decoder layer. Two layers of equal kind have equal shapes.
type Layer struct {
	Mixer       Mixer
	Feedforward Feedforward
	Windowed    bool // sliding-window attention
}
