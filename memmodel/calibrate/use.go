package calibrate

import "strings"

// Use says what a record is good for.
type Use uint8

const (
	Usable      Use = iota
	Conditional     // only under an assumption that Reason names; kept apart from the usable ones
	Unusable        // shown with its reason, compared with nothing
)

// String names the use.
func (u Use) String() string { return [...]string{"usable", "conditional", "unusable"}[u] }

// unusable are records that describe another run than their configuration, or too little of one (memory-findings.md
// section 5). The reasons were found without this package's predictions.
var unusable = map[string]string{
	"m0554": "the values are those of another test (GPT tp1_pp4_vp1 with the distributed optimizer)",
	"m0550": "byte for byte the H100 file m0551 under another GPU's name",
	"m0552": "byte for byte the H100 file m0551 under another GPU's name",
	"m0007": "the same values as m0001 and m0004",
	"m0006": "recorded with an older configuration",
	"m0616": "the values are those of m0598 and m0607",
	"m0560": "the configuration is newer than the values (another cross entropy)",
	"m0311": "the configuration is newer than the values (cross entropy fusion)",
	"m0353": "the configuration is newer than the values (cross entropy fusion)",
	"m0315": "the configuration is newer than the values (cross entropy fusion)",
	"m0316": "the configuration is newer than the values (cross entropy fusion)",
	"m0360": "the configuration is newer than the values (cross entropy fusion)",
	"m0361": "the configuration is newer than the values (cross entropy fusion)",
	"m0569": "FP8 without --bf16 under Megatron-FSDP: what is stored in which type is unknown",
	"m0570": "FP8 without --bf16 under Megatron-FSDP: what is stored in which type is unknown",
	"m0546": "flextron trains sub-models of unknown width",
	"m0730": "the number of GPUs is unknown (MXFP8, latent MoE, CUDA graphs)",
	"m0731": "the number of GPUs is unknown (MXFP8, latent MoE, CUDA graphs)",
}

// olderContainer are GB200 records that fit PyTorch's older cuBLAS workspace of 8.125 MiB only (memory-findings.md
// section 5): which container ran is not recorded.
var olderContainer = map[string]bool{
	"m0253": true, "m0281": true, "m0287": true, "m0292": true, "m0298": true, "m0303": true, "m0310": true, "m0317": true,
	"m0344": true, "m0345": true, "m0352": true, "m0354": true, "m0355": true, "m0362": true, "m0591": true, "m0595": true,
}

// moments are resumed runs that keep a second copy of the loaded moments (memory-findings.md C20).
var moments = map[string]bool{"m0347": true, "m0357": true, "m0187": true, "m0428": true}

// unnamed reports whether a record names no GPU and no platform (old file names).
func (r *Record) unnamed() bool { return r.Platform == "" && strings.HasPrefix(r.Kind, "megatron-") }

// extra are resumed runs whose memory holds something that the first run's does not (memory-findings.md sections 3 and 5).
var extra = map[string]string{
	"m0655": "a resumed run with 1.9 GiB more than the first, unexplained",
	"m0613": "a resumed run whose peak is the loading of the checkpoint",
	"m0615": "a resumed run whose peak is the loading of the checkpoint",
}

// older reports whether a record's values predate the present tests: they ran with unfused attention
// (memory-findings.md C5).
func (r *Record) older() bool {
	if r.unnamed() { // of these the tests that resume were recorded again later, with FlashAttention 2
		return !strings.Contains(r.Model, "_resume_")
	}
	return strings.HasPrefix(r.Platform, "dgxa100_draco") || r.Environment == "lts" && !r.Listed
}

// Use returns what the record can be compared with, and why not with more.
func (r *Record) Use() (Use, string) {
	if why, bad := unusable[r.ID]; bad {
		return Unusable, why
	}
	if why, ok := extra[r.ID]; ok {
		return Conditional, why
	}
	switch {
	case len(r.Argv) == 0:
		return r.publishedUse()
	case r.World == 0:
		return Unusable, "the number of GPUs is unknown"
	case r.unnamed():
		return Conditional, "the source names no GPU: an A100 is assumed"
	case r.older():
		return Conditional, "values older than the present tests: unfused attention is assumed"
	case olderContainer[r.ID]:
		return Conditional, "an older container is assumed (cuBLAS workspace of 8 MiB on Blackwell)"
	case moments[r.ID]:
		return Conditional, "a resumed run that keeps a second copy of the loaded moments"
	}
	return Usable, ""
}

// publishedUse is that of a figure without a command line.
func (r *Record) publishedUse() (Use, string) {
	if _, ok := figures[r.ID]; ok {
		return Conditional, "a published figure without a command line: the recipe's flags are assumed"
	}
	switch m := &r.Measured; {
	case m.OtherName != "":
		return Unusable, "a difference or an estimate, not a measured total"
	case m.Peak == 0 && m.AfterStep == 0 && m.Device > 0:
		return Unusable, "device memory alone was measured"
	case m.Peak == 0 && m.AfterStep == 0 && m.Reserved > 0:
		return Unusable, "reserved memory alone was measured"
	case m.Peak == 0 && m.AfterStep == 0:
		return Unusable, "it ran out of memory before anything was measured"
	}
	return Unusable, "the source gives no complete configuration"
}
