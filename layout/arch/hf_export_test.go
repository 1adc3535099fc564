package arch

// HFText writes a model as Hugging Face's config.json, for the tests outside the package.
func HFText(m *Model) string { return hfOf(m).String() }
