package megatron

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/moeplan/moeplan/layout"
)

// What HybridEP is told about the NVLink domains is what comm-model.md 2.4 lists; a launch with another dispatcher says
// nothing of it.
func TestLaunchEnvironment(t *testing.T) {
	allocator := Variable{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}
	for _, tt := range []struct {
		name       string
		dispatcher layout.Dispatcher
		o          LaunchOptions
		want       []Variable
	}{
		{"DeepEP finds its peers by itself", layout.DeepEP, LaunchOptions{GPUsPerNode: 8, DomainGPUs: 8, DomainRanks: 8}, nil},
		{"a node is a domain", layout.HybridEP, LaunchOptions{GPUsPerNode: 8, DomainGPUs: 8, DomainRanks: 8},
			[]Variable{{"NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN", "8"}, {"NVLINK_DOMAIN_SIZE", "8"}, {"USE_MNNVL", "0"}}},
		{"NVL72 reaches over nodes of 4", layout.HybridEP, LaunchOptions{GPUsPerNode: 4, DomainGPUs: 72, DomainRanks: 64},
			[]Variable{{"NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN", "64"}, {"NVLINK_DOMAIN_SIZE", "72"}, {"USE_MNNVL", "1"}}},
		{"groups lie differently over domains: a wrong number is worse than none", layout.HybridEP, LaunchOptions{GPUsPerNode: 4, DomainGPUs: 72},
			[]Variable{{"NVLINK_DOMAIN_SIZE", "72"}, {"USE_MNNVL", "1"}}},
		{"an unknown machine", layout.HybridEP, LaunchOptions{GPUsPerNode: 8}, nil},
	} {
		l := layout.Layout{Dispatcher: tt.dispatcher}
		if diff := cmp.Diff(append([]Variable{allocator}, tt.want...), launchEnvironment(&l, tt.o)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
