package policy

// Validate checks files and directories as a store would load them at its first start, and returns all problems in the order of
// the files. Errors counts those that would hold a document back.
func Validate(paths ...string) []Problem {
	return NewStore(Options{}).Load(paths...).Problems
}
