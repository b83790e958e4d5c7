package store

import (
	"crypto/sha256"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/pricebook"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// Validate checks files and directories as a new store loads them. It returns all problems in the order of the files. policy.Errors returns
// how many of the problems cause a document to be refused. Validate also reports a path without documents, because in CI this is usually a
// renamed directory. It checks a file with a price book as a price book.
func Validate(paths ...string) []policy.Problem {
	problems, _ := ValidateWith(nil, Trusted(paths...)...)
	return problems
}

// ValidateWith does the same as Validate, but accepts from each path only the documents that the Path permits, and also returns the number
// of documents. For a path with the name "-", it checks text instead of a file.
func ValidateWith(text []byte, paths ...Path) (problems []policy.Problem, documents int) {
	return validateAll(New(Options{}), text, paths)
}

// ValidatePolicies does the same as ValidateWith. In addition, if the documents contain no PlatformConfig, it accepts all names that a
// PlatformConfig could declare: names of data sources, queries and capacity groups. A team without the file of the PlatformConfig can check
// its policies in this way. Bounds and permissions of the PlatformConfig are not checked.
func ValidatePolicies(text []byte, paths ...Path) (problems []policy.Problem, documents int) {
	s := New(Options{})
	s.platformElsewhere = true
	return validateAll(s, text, paths)
}

// validateAll loads the documents into the new store s.
func validateAll(s *Store, text []byte, paths []Path) (problems []policy.Problem, documents int) {
	files, regions := expandManifests(readPaths(text, paths))
	for _, f := range files {
		documents += len(parts(f.text))
	}
	problems = validate(s, paths, files)
	shift(problems, regions)
	return problems, documents
}

// readPaths reads files and directories as readAll does, but uses text as the content of the path "-".
func readPaths(text []byte, paths []Path) (files []file) {
	for i := range paths {
		if paths[i].Name == "-" {
			files = append(files, file{path: &paths[i], name: "-", text: text, hash: sha256.Sum256(text)})
		} else {
			files = append(files, readAll(paths[i:i+1])...)
		}
	}
	return files
}

func validate(s *Store, paths []Path, files []file) []policy.Problem {
	var problems []policy.Problem
	policies := slices.DeleteFunc(slices.Clone(files), func(f file) bool {
		is := pricebook.Is(f.text)
		if is {
			_, found := pricebook.Read(f.name, f.text)
			problems = append(problems, found...)
		}
		return is
	})
	problems = append(problems, s.load(policies).Problems...)
	policy.SortProblems(problems)
	for _, f := range files {
		if f.err != nil || len(parts(f.text)) > 0 {
			return problems
		}
	}
	for _, p := range paths {
		problems = append(problems, policy.Problem{File: p.Name, Message: "contains no documents",
			Allowed: ".yaml, .yml or .json files with " + spec.KindScalingPolicy + " or " + spec.KindPlatformConfig})
	}
	return problems
}

// parts returns the documents of a file, without empty documents.
func parts(text []byte) (docs []*document) {
	for _, p := range decode.Split(text) {
		if d := newDocument("", p); d.read() {
			docs = append(docs, d)
		}
	}
	return docs
}
