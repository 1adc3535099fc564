package memmodel

// Device is what the card sees of one rank: the allocator's reservation and what lives outside it, as a range.
// Nothing of it was recorded by the framework runs at hand, so both ends are derived (constants.go).
type Device struct {
	Reserved  int64 // torch.cuda.max_memory_reserved, upper figure
	Low, High int64 // nvidia-smi
}

// device derives the range from the allocated peak (memory-model.md 7.2 and 7.4).
func (s *shape) device(c *class, allocated int64) Device {
	outsideLow, outsideHigh := int64(contextLow), int64(contextHigh)
	if s.l.World > 1 {
		outsideLow += ncclLow
		outsideHigh += ncclHigh
	}
	if c.has(layerKind.moe) && s.l.EP > 1 {
		outsideHigh += allToAllHigh
	}
	reserved := int64(float64(allocated) * reservedHigh)
	return Device{
		Reserved: reserved,
		Low:      int64(float64(allocated)*reservedLow) + outsideLow,
		High:     reserved + outsideHigh,
	}
}
