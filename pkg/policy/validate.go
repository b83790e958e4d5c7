package policy

import "slices"

// Validate checks files and directories as a store would load them at its first start, and returns all problems in the order of
// the files; Errors counts those that would hold a document back. A path without any document is a problem too: in CI it is a
// folder that was renamed, and silence would pass. A price book, which stands in a file of its own, is checked as one.
func Validate(paths ...string) []Problem { return ValidatePaths(Trusted(paths...)...) }

// ValidatePaths is Validate of paths from which only certain documents are accepted.
func ValidatePaths(paths ...Path) []Problem {
	files := readAll(paths)
	var problems []Problem
	books := false
	policies := slices.DeleteFunc(slices.Clone(files), func(f file) bool {
		is := isPriceBook(f.text)
		if books = books || is; is {
			_, found := PriceBook(f.name, f.text)
			problems = append(problems, found...)
		}
		return is
	})
	problems = append(problems, NewStore(Options{}).load(policies).Problems...)
	sortProblems(problems)
	if books {
		return problems
	}
	for _, f := range files {
		if f.err != nil || len(parts(f.text)) > 0 {
			return problems
		}
	}
	for _, p := range paths {
		problems = append(problems, Problem{File: p.Name, Message: "holds no documents", Allowed: ".yaml, .yml or .json files with " + KindScalingPolicy + " or " + KindPlatformConfig})
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
