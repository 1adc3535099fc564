package topology

import "github.com/moeplan/moeplan/folding"

// UsableDomain returns how many GPUs of each domain a job should use so that groups do not straddle domains.
//
// blocks are runs of consecutive ranks that should not be torn, most important first (TP, TP*CP, ETP*EP and so
// on). A block fits n ranks per domain if one divides the other. Whole nodes are left idle, never parts of
// them and never half the domain: candidates are domain, domain-node, ... above domain/2. The answer is the
// largest candidate that fits the longest beginning of blocks.
//
// On an NVL72 rack (node 4), powers of two up to 8 fit all 72 GPUs and larger ones 64: the documented
// practice "use 64 of the 72" (moeplan notes comm-model 2.4 and ranking-findings C5). On an 8-GPU box the
// answer is always 8. That domains really hold this many CONSECUTIVE ranks is the scheduler's doing (Slurm
// segments), so a plan must say that it assumes it.
func UsableDomain(domain, node int, blocks ...int) int {
	if domain < 1 {
		return 1
	}
	if node < 1 || node > domain {
		node = domain
	}
	best, most := domain, -1
	for n := domain; n > domain/2; n -= node {
		fit := 0
		for fit < len(blocks) && fits(blocks[fit], n) {
			fit++
		}
		if fit > most {
			best, most = n, fit
		}
	}
	return best
}

// fits reports whether consecutive blocks never straddle domains of n ranks, or cover whole ones.
func fits(block, n int) bool {
	return block <= 1 || n%block == 0 || block%n == 0
}

// UsableDomain returns the ranks that each of the platform's domains should hold for a mesh: the package's
// UsableDomain over TP, ETP*EP, TP*CP and the pipeline stage (World/PP), in this order. The error is an
// *UnknownFigureError if the platform's domain is unknown; an unknown node counts as the whole domain.
func (p *Platform) UsableDomain(d folding.Degrees) (int, error) {
	domain, err := p.Need(FigureDomain)
	if err != nil {
		return 0, err
	}
	return UsableDomain(int(domain), p.Node.Int(), d.TP, d.ETP*d.EP, d.TP*d.CP, d.World/max(1, d.PP)), nil
}
