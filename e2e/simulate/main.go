//go:debug randseednop=0

// Command simulate runs the controller in virtual time against models of the API server, Karpenter, KEDA, Prometheus and Redis. A seed
// determines the events and faults of a run. See ../README.md.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/schedule"
)

func main() {
	testing.Init() // package testing must be initialized, because a synctest bubble needs a test
	seed := flag.Uint64("seed", 0, "run this seed only and print its trace")
	seeds := flag.Int("seeds", 0, "number of seeds; 0: until -for has passed")
	file := flag.String("story", "", "run this story only and print its trace")
	first := flag.Uint64("first", uint64(time.Now().UnixNano()/1e6), "the first seed")
	lasting := flag.Duration("for", 2*time.Minute, "how long random seeds run")
	table := flag.String("coverage", "", "count the faults in each state of the controller in this file, and add faults that states lack")
	whole := flag.Bool("noshrink", false, "print a failing run with all of its events")
	flag.Parse()
	shrinks = !*whole
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "Simulate", F: func(t *testing.T) {
		passed := false
		switch {
		case *file != "":
			passed = runFile(t, *file)
		case *table != "":
			passed = runCoverage(t, *table, *first, *seeds, *lasting)
		case *seed != 0:
			passed = runOne(t, *seed)
		default:
			passed = runMany(t, *first, *seeds, *lasting)
		}
		if !passed {
			t.Fail()
		}
	}}}, nil, nil)
}

// inBubble runs a simulation in virtual time.
func inBubble(t *testing.T, seed uint64, events []schedule.Event) (r result) {
	synctest.Test(t, func(*testing.T) { r = run(seed, events, nil) })
	return r
}

// runOne runs one seed and prints its trace. If an invariant is violated, runOne also prints a smaller list of events that violates it.
func runOne(t *testing.T, seed uint64) bool {
	events := schedule.Draw(seed)
	r := inBubble(t, seed, events)
	for _, line := range r.lines {
		fmt.Println(line)
	}
	fmt.Printf("seed %d: trace %016x, %d writes, %d changes of targets\n", seed, r.hash, r.writes, r.targets)
	if r.violation == nil {
		return true
	}
	events, r = shrink(t, seed, events, r)
	report(os.Stdout, seed, events, r)
	return false
}

// runFile runs the story in a file and prints its trace.
func runFile(t *testing.T, file string) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	story, err := schedule.ParseStory(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, line := range inBubble(t, story.Seed, story.Events).lines {
		fmt.Println(line)
	}
	return runStory(t, os.Stdout, &story)
}

// runStory runs a story. If an invariant is violated or the trace lacks an expected line, it prints the trace and returns false.
func runStory(t *testing.T, out io.Writer, story *schedule.Story) bool {
	r := inBubble(t, story.Seed, story.Events)
	if r.violation != nil {
		report(out, story.Seed, story.Events, r)
		return false
	}
	missing := story.Missing(r.lines)
	if missing != "" {
		_, _ = fmt.Fprintf(out, "%s\nthe trace lacks the line %q after the expected lines before it\n", strings.Join(r.lines, "\n"), missing)
	}
	return missing == ""
}

// runMany runs the stories, and then consecutive seeds until a seed fails, the given number of seeds has run or the given time has passed.
func runMany(t *testing.T, first uint64, seeds int, lasting time.Duration) bool {
	stories, err := schedule.Stories()
	if err != nil {
		t.Fatal(err)
	}
	for _, story := range stories {
		if !runStory(t, os.Stdout, &story) {
			fmt.Println("story:", story.Name)
			return false
		}
	}
	began, done, writes, targets := time.Now(), 0, 0, 0
	progress := began
	for seed := first; ; seed++ {
		if seeds > 0 && done == seeds || seeds == 0 && time.Since(began) > lasting {
			break
		}
		events := schedule.Draw(seed)
		r := inBubble(t, seed, events)
		done, writes, targets = done+1, writes+r.writes, targets+r.targets
		if r.violation != nil {
			events, r = shrink(t, seed, events, r)
			report(os.Stdout, seed, events, r)
			return false
		}
		if time.Since(progress) > 10*time.Second {
			progress = time.Now()
			fmt.Printf("%d seeds, %.1f a second\n", done, float64(done)/time.Since(began).Seconds())
		}
	}
	fmt.Printf("%d seeds from %d passed: %.1f seeds a second, %d writes, %d changes of targets\n", done, first,
		float64(done)/time.Since(began).Seconds(), writes, targets)
	return true
}

// shrinks determines whether a failing run is repeated with fewer events, to find the events that cause the failure.
var shrinks = true

// shrink removes events while the run without them still violates the same invariant.
func shrink(t *testing.T, seed uint64, events []schedule.Event, r result) ([]schedule.Event, result) {
	if !shrinks {
		return events, r
	}
	events = schedule.Fewest(events, func(fewer []schedule.Event) bool {
		next := inBubble(t, seed, fewer)
		if next.violation == nil || next.violation.invariant != r.violation.invariant {
			return false
		}
		r = next
		return true
	})
	return events, r
}
