package steptime

// Notes are the reservations of one price, as a set.
type Notes uint32

const (
	// NoteGPU: no step time of this GPU kind was measured.
	NoteGPU Notes = 1 << iota
	// NoteNoNVLink: Domain is 1, traffic between neighbours is priced at the host link or the NIC.
	NoteNoNVLink
	// NoteETP: no layout with ETP > 1 is among the fitted points.
	NoteETP
	// NoteAllGather: nor one with the allgather dispatcher.
	NoteAllGather
	// NoteTPAcross: nor one with TP across NVLink domains.
	NoteTPAcross
	// NoteFP4: the speed of NVFP4 is fitted to dense models only.
	NoteFP4
	// NoteImbalance: the cost of unbalanced routing is counted, not fitted.
	NoteImbalance
	// NoteLinear: the time of Mamba and gated delta net layers is counted, not fitted.
	NoteLinear
	// NoteDispatcher: token dispatch stays inside a domain, on few ranks, where the dispatchers' times are not told apart.
	NoteDispatcher

	// The rest leave the price unknown.

	// NoteNoNIC: the layout leaves its domain and the platform's NIC rate is unknown.
	NoteNoNIC
	// NoteNoFormat: the GPU has no tensor cores for the layout's precision.
	NoteNoFormat
	// NoteLayout: the layout has no split for its pipeline, or not one micro-batch.
	NoteLayout
	// NoteOrder: the rank order is one that no Megatron command line gives.
	NoteOrder
)

// Unpriced are the notes with which no step time exists.
const Unpriced = NoteNoNIC | NoteNoFormat | NoteLayout | NoteOrder

var noteTexts = [...]string{
	"no step time of this GPU kind was measured: kernel and host constants are borrowed (H100's, or B200's for Blackwell)",
	"no NVLink: traffic between neighbours is priced at the slower of host link and NIC, and may be far slower without peer-to-peer",
	"no measured layout has expert tensor parallelism: its cost is counted, not fitted",
	"no measured layout uses the allgather dispatcher: its cost is counted, not fitted",
	"no measured layout has tensor parallelism across NVLink domains",
	"NVFP4 is timed by its speed-up over MXFP8 in dense models; no MoE model was measured",
	"unbalanced routing is counted on the fullest rank, not fitted",
	"no Mamba or gated delta net layer was measured: its time is counted, not fitted",
	"inside one NVLink domain alltoall and the flex dispatchers are not told apart: measure both",
	"the network rate of this platform is unknown and the layout leaves its NVLink domain",
	"this GPU has no tensor cores for the layout's precision",
	"the layout's split does not cover its pipeline, or it has no micro-batch",
	"the rank order is not one that a Megatron command line gives",
}

// Has reports whether all of m are in the set.
func (n Notes) Has(m Notes) bool { return n&m == m }

// Texts returns one sentence a note.
func (n Notes) Texts() []string {
	var texts []string
	for i, text := range noteTexts {
		if n&(1<<i) != 0 {
			texts = append(texts, text)
		}
	}
	return texts
}
