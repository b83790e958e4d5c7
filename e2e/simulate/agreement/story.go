// Package agreement runs the same stories on the models of the simulation and on the real components. It compares the answers to all
// requests, the watch events and the final objects. A difference is a defect of a model, because the simulation would then check
// gpuscaler against components that behave differently in a cluster.
package agreement

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// story is a script with the results that both sides (the models and the real components) must have.
type story struct {
	name   string
	text   string   // description of the story and of its purpose, as comments
	on     string   // the components that the story is about: nodepools, hpa or karpenter
	steps  []string // each step is one line of the file
	expect string   // the output that both sides must have
}

//go:embed stories/*.story
var files embed.FS

// stories returns the stories about the given components.
func stories(on string) (all []*story, err error) {
	names, err := fs.Glob(files, "stories/*.story")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s, err := parse(string(content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if s.name = strings.TrimSuffix(strings.TrimPrefix(name, "stories/"), ".story"); s.on == on {
			all = append(all, s)
		}
	}
	return all, nil
}

// parse reads a story: comments, the line "on:", one step in each line, and after the line "expect:" the output that both sides must
// have.
func parse(content string) (*story, error) {
	s := &story{}
	head, expect, found := strings.Cut(content, "\nexpect:\n")
	if !found {
		return nil, errors.New("the line expect: is missing")
	}
	s.expect = expect
	for line := range strings.Lines(head) {
		line = strings.TrimSpace(line)
		switch value, is := strings.CutPrefix(line, "on: "); {
		case line == "":
		case strings.HasPrefix(line, "#"):
			s.text += strings.TrimSpace(line[1:]) + "\n"
		case is:
			s.on = value
		default:
			s.steps = append(s.steps, line)
		}
	}
	if s.on == "" || s.text == "" || len(s.steps) == 0 {
		return nil, errors.New("a story has a comment, the line on: and steps")
	}
	return s, nil
}

// withExpect returns the content of a story file in which the expected output is replaced by the parameter expect.
func withExpect(content, expect string) string {
	head, _, _ := strings.Cut(content, "\nexpect:\n")
	return head + "\nexpect:\n" + expect
}

// arguments returns the text that follows the given words in a step. ok is false if the step does not begin with these words.
func arguments(step, words string) (rest string, ok bool) {
	if step == words {
		return "", true
	}
	return strings.CutPrefix(step, words+" ")
}
