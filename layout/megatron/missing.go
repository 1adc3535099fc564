package megatron

// Missing returns what a release cannot say of a command line that was written for another one: flags that it does not have
// yet, with the release that brings them, or any more, with the last one that had them, and values that it does not take.
// Nil means that its parser reads the whole of it.
func (a Args) Missing(r Release) Problems {
	_, problems := parse(a.Argv(), r)
	return problems
}
