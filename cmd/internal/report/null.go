package report

// OrNull is a value for JSON, in which one that is not known, which its zero stands for, is null.
func OrNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
