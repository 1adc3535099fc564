package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"

	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/topology"
)

// PlatformSpec are the figures that make a platform, under the keys of a platform file; null is unknown.
type PlatformSpec struct {
	ID   string `json:"id"`   // name
	Name string `json:"name"` // in full
	Arch string `json:"arch"` // ampere, ada, hopper, blackwell, ...

	SM           topology.Figure `json:"sm"`                            // compute capability times ten
	MemoryGiB    topology.Figure `json:"memory_gib_nvidia_smi"`         // GiB that the driver offers
	HBMGBps      topology.Figure `json:"hbm_gbps"`                      // GB/s
	BF16TFLOPS   topology.Figure `json:"bf16_tflops_dense"`             // TFLOPS
	FP8TFLOPS    topology.Figure `json:"fp8_tflops_dense"`              // TFLOPS
	FP4TFLOPS    topology.Figure `json:"fp4_tflops_dense"`              // TFLOPS
	Domain       topology.Figure `json:"gpus_per_nvlink_domain"`        // GPUs
	Node         topology.Figure `json:"gpus_per_node"`                 // GPUs
	NVLinkGBps   topology.Figure `json:"nvlink_gbps_unidir_per_gpu"`    // GB/s, one direction
	NICGbit      topology.Figure `json:"nic_gbit_per_gpu"`              // Gbit/s
	HostLinkGBps topology.Figure `json:"host_link_gbps_unidir_per_gpu"` // GB/s, one direction
	HostMemoryGB topology.Figure `json:"host_memory_gb_per_gpu"`        // GB
}

func specOf(p *topology.Platform) *PlatformSpec {
	return &PlatformSpec{ID: p.ID, Name: p.Name, Arch: p.Arch, SM: p.SM, MemoryGiB: p.MemoryGiB, HBMGBps: p.HBMGBps,
		BF16TFLOPS: p.BF16TFLOPS, FP8TFLOPS: p.FP8TFLOPS, FP4TFLOPS: p.FP4TFLOPS, Domain: p.Domain, Node: p.Node,
		NVLinkGBps: p.NVLinkGBps, NICGbit: p.NICGbit, HostLinkGBps: p.HostLinkGBps, HostMemoryGB: p.HostMemoryGB}
}

// ModelDigest tells models apart by what an answer depends on: names, shape and flags, not sources and notes. It guards
// against mistakes, not against malice: 64 bits.
func ModelDigest(m *arch.Model) string {
	q := *m
	q.Sources, q.Unverified, q.Notes, q.RecordedTotal, q.RecordedActive = nil, nil, nil, nil, nil
	if !q.LearnedPositions {
		q.MaxPositionEmbeddings = 0 // no more than a bound, see Stretched
	}
	return digest(q)
}

// PlatformDigest tells platforms apart by their figures.
func PlatformDigest(p *topology.Platform) string { return digest(specOf(p)) }

func digest(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // plain data
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// ownModel reports whether a model is none of the catalogue's.
func ownModel(m *arch.Model) bool {
	known, err := arch.Lookup(m.ID)
	return err != nil || ModelDigest(known) != ModelDigest(m)
}

// ownPlatform reports whether a platform is none of the catalogue's, whatever figures the caller replaced on it.
func ownPlatform(p *topology.Platform) bool {
	known, err := topology.LookupPlatform(p.ID)
	if err != nil {
		return true
	}
	var given []topology.Override
	for _, id := range p.Overridden {
		given = append(given, topology.Override{Figure: id, Value: p.Figure(id).Value})
	}
	if known, err = known.With(given...); err != nil {
		return true
	}
	return PlatformDigest(known) != PlatformDigest(p) || !reflect.DeepEqual(known.Measured, p.Measured)
}
