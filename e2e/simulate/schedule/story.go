package schedule

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Story is a short run that once violated an invariant, reduced to the necessary events. It violates the invariant again if the product
// contains the mutant.
type Story struct {
	Name     string
	Text     string // description of what happened: the lines of the file that begin with "#"
	Mutant   string // the mutant that puts the defect back into the product; empty: the defect was in the model
	Violates string // the invariant that the run violates with the defect
	Seed     uint64
	Events   []Event
	Expect   []string // parts of lines that the trace must contain in this order
}

//go:embed stories/*.story
var files embed.FS

// Stories returns the stories that are kept as regression tests.
func Stories() (all []Story, err error) {
	names, err := fs.Glob(files, "stories/*.story")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s, err := ParseStory(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		s.Name = strings.TrimSuffix(strings.TrimPrefix(name, "stories/"), ".story")
		all = append(all, s)
	}
	return all, nil
}

// String returns the story in the form that ParseStory reads.
func (s *Story) String() string {
	var b strings.Builder
	for line := range strings.Lines(s.Text) {
		b.WriteString(strings.TrimSpace("# "+line) + "\n")
	}
	if s.Mutant != "" {
		fmt.Fprintf(&b, "mutant: %s\n", s.Mutant)
	}
	fmt.Fprintf(&b, "violates: %s\nseed: %d\n\n", s.Violates, s.Seed)
	for _, e := range s.Events {
		fmt.Fprintln(&b, e)
	}
	if s.Expect != nil {
		b.WriteString("\nexpect:\n" + strings.Join(s.Expect, "\n") + "\n")
	}
	return b.String()
}

// ParseStory reads a story: comments, the properties mutant, violates and seed, and one event in each line. Each line after the line
// "expect:" is a part of a line of the trace. The trace must contain these parts in this order.
func ParseStory(text string) (s Story, err error) {
	expects := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "":
		case strings.HasPrefix(line, "#"):
			s.Text += strings.TrimSpace(strings.TrimPrefix(line, "#")) + "\n"
		case line == "expect:":
			expects = true
		case expects:
			s.Expect = append(s.Expect, line)
		case key == "mutant":
			s.Mutant = value
		case key == "violates":
			s.Violates = value
		case key == "seed":
			if s.Seed, err = strconv.ParseUint(value, 10, 64); err != nil {
				return s, err
			}
		default:
			e, err := ParseEvent(line)
			if err != nil {
				return s, err
			}
			s.Events = append(s.Events, e)
		}
	}
	return s, nil
}

// Missing returns the first expected part that the trace does not contain after the previous expected parts, or "" if it contains all
// parts.
func (s *Story) Missing(trace []string) string {
	for _, part := range s.Expect {
		i := slices.IndexFunc(trace, func(line string) bool { return strings.Contains(line, part) })
		if i < 0 {
			return part
		}
		trace = trace[i+1:]
	}
	return ""
}

// text returns the description of an event without its time. It contains "%s" instead of the duration.
func (e Event) text() string {
	s := &sentences[e.Kind]
	return s.text(e.Which%max(s.which, 1), e.Value%max(s.value, 1))
}

// Sentence returns the description of an event without its time.
func (e Event) Sentence() string {
	text := e.text()
	if strings.Contains(text, "%s") {
		text = fmt.Sprintf(text, sentences[e.Kind].effect.of(e.Lasting))
	}
	return text
}

// String returns the time and the description of an event. ParseEvent converts this text to an event with the same effects.
func (e Event) String() string { return fmt.Sprintf("%4ds %s", e.Second, e.Sentence()) }

// known returns a map from each possible description of an event to an event with this description.
var known = sync.OnceValue(func() map[string]Event {
	all := map[string]Event{}
	for kind := range NumKinds {
		for which := range max(sentences[kind].which, 1) {
			for value := range max(sentences[kind].value, 1) {
				e := Event{Kind: kind, Which: which, Value: value}
				if _, exists := all[e.text()]; !exists {
					all[e.text()] = e
				}
			}
		}
	}
	return all
})

var (
	timed   = regexp.MustCompile(`^(\d+)s (.*)$`)
	lasting = regexp.MustCompile(`^(.* for )((?:\d+h)?(?:\d+m)?[\d.]+s)$`)
)

// ParseEvent parses the result of Event.String.
func ParseEvent(line string) (Event, error) {
	m := timed.FindStringSubmatch(strings.TrimSpace(line))
	if m == nil {
		return Event{}, fmt.Errorf("%q does not begin with a number of seconds", line)
	}
	second, err := strconv.Atoi(m[1])
	if err != nil {
		return Event{}, err
	}
	text, d := m[2], time.Duration(0)
	if part := lasting.FindStringSubmatch(text); part != nil {
		text = part[1] + "%s"
		if d, err = time.ParseDuration(part[2]); err != nil {
			return Event{}, err
		}
	}
	e, exists := known()[text]
	if !exists {
		return Event{}, fmt.Errorf("no event has the description %q", text)
	}
	e.Second = second
	if d > 0 {
		e.Lasting = sentences[e.Kind].effect.lasting(d)
	}
	return e, nil
}
