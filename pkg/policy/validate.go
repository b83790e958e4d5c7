package policy

// Validate checks files and directories as a store would load them at its first start, and returns all problems in the order of
// the files; Errors counts those that would hold a document back. A path without any document is a problem too: in CI it is a
// folder that was renamed, and silence would pass.
func Validate(paths ...string) []Problem {
	files := readAll(paths)
	problems := NewStore(Options{}).load(files).Problems
	for _, f := range files {
		if f.err != nil || len(parts(f.text)) > 0 {
			return problems
		}
	}
	for _, p := range paths {
		problems = append(problems, Problem{File: p, Message: "holds no documents", Allowed: ".yaml, .yml or .json files with " + KindScalingPolicy + " or " + KindPlatformConfig})
	}
	return problems
}

// parts lists the documents of a file that have any text.
func parts(text []byte) (docs []*document) {
	for _, p := range split(text) {
		if d := newDocument("", p); d.read() {
			docs = append(docs, d)
		}
	}
	return docs
}
