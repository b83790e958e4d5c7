package schedule

import (
	"strings"
	"testing"
)

// Each event that a seed draws must be the same after it was printed in a story and read again.
func TestEventsAreReadAsTheyArePrinted(t *testing.T) {
	for seed := range uint64(200) {
		for _, e := range Draw(seed) {
			read, err := ParseEvent(e.String())
			if err != nil || read.String() != e.String() {
				t.Fatalf("seed %d: %q was read as %q: %v", seed, e, read, err)
			}
		}
	}
}

func TestAStoryThatCannotBeReadNamesTheLine(t *testing.T) {
	for _, line := range []string{
		"12s the load of chat becomes 16", "the load of chat becomes 15", "12s replica-2 is killed", "12s replica-0 is paused", "seed: many",
	} {
		named := strings.TrimPrefix(strings.TrimPrefix(line, "12s "), "seed: ")
		if _, err := ParseStory(line + "\n"); err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%q: error %v", line, err)
		}
	}
}

func TestStoriesAreCompleteAndPrintedAsTheyAreSaved(t *testing.T) {
	stories, err := Stories()
	if err != nil {
		t.Fatal(err)
	}
	if len(stories) < 10 {
		t.Errorf("%d stories", len(stories))
	}
	for _, s := range stories {
		text, err := files.ReadFile("stories/" + s.Name + ".story")
		if err != nil {
			t.Fatal(err)
		}
		if s.Text == "" || s.Violates == "" || s.Seed == 0 || len(s.Events) == 0 || s.String() != string(text) {
			t.Errorf("%s is printed as\n%s", s.Name, &s)
		}
	}
}

func TestExpectedLinesHaveAnOrder(t *testing.T) {
	s := Story{Expect: []string{"leads", "killed"}}
	if s.Missing([]string{"1s a leads", "2s a killed"}) != "" || s.Missing([]string{"1s a killed", "2s a leads"}) != "killed" {
		t.Error("the second line must follow the first one")
	}
}
