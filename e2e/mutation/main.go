// Command mutation measures whether the unit tests of the decision packages detect small defects. It changes one expression or statement at
// a time, runs the tests that execute the changed code, and prints the share of changes that make a test fail:
//
//	go run ./mutation                           # 40 mutants of each group of packages
//	go run ./mutation -seed 2 -unseen 1         # another sample, without the mutants of the first sample
//	go run ./mutation -groups engine -only 'nodes.go'
//
// A group is a package below pkg with its sub-packages. A mutant is one change. It counts as detected (killed) if a test of its group fails
// or exceeds its time limit. Tests of other groups and end-to-end tests do not count. A mutant of code that no test executes is not
// detected.
//
// # Why not an existing tool
//
// gremlins 0.6 and the forks of go-mutesting call the go command once for each mutant. Compiling and linking the tests of pkg/capacity
// takes seconds, so a sample of 200 mutants takes an hour on two cores. These tools cannot select a sample by a seed, continue an
// interrupted run, or pass flags to the test program, which the property tests need for their fixed seed. gremlins limits wall-clock time,
// so mutants time out on a busy machine and count as detected.
//
// # How it works
//
// All sampled mutants of a group are compiled at once (mutant schemata). In the overlay of a file, the expression a < b becomes a function
// literal that returns a <= b if the environment variable of the process selects this mutant, and a < b otherwise. A mutant therefore costs
// only the run of its tests. A first run of each test without a mutant records the CPU time of the test and the mutants that it reaches.
// Then each mutant is run with the tests that reach it until one test fails: first the tests of the mutant's package, the fastest test
// first. The limit of a run is CPU time, so that a busy machine does not change results. Each result is appended to a file, so that the
// next run on the same sources continues an interrupted run. A change of comments or of the layout does not invalidate results.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// settings are the flags of the command.
type settings struct {
	module   string // directory of the module
	seed     int
	unseen   []int // seeds whose samples are excluded
	size     int   // number of mutants in the sample of each group
	only     *regexp.Regexp
	list     bool
	parallel int
	least    float64       // lowest score with which the command succeeds, in percent
	limit    time.Duration // CPU time that a run may use in addition to a multiple of the time of its tests
}

func main() {
	s := settings{module: "..", limit: 5 * time.Second}
	groups := flag.String("groups", "scaling,capacity,engine,policy,calendar", "packages below pkg, each with its sub-packages")
	unseen := flag.String("unseen", "", "leave out the samples of these seeds, for example 1,2")
	only := flag.String("only", "", "run only mutants whose line in the list matches this regular expression; all of them, not a sample")
	file := flag.String("record", "../dist/mutation.jsonl", "the file to which results are appended")
	flag.IntVar(&s.seed, "seed", 1, "selects the sample")
	flag.IntVar(&s.size, "sample", 40, "number of mutants of each group")
	flag.BoolVar(&s.list, "list", false, "print the sample and run nothing")
	flag.IntVar(&s.parallel, "parallel", 2, "number of mutants that run at the same time")
	flag.Float64Var(&s.least, "least", 85, "fail if the score of a group is below this percentage")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := s.read(*unseen, *only)
	if err == nil {
		err = s.run(ctx, strings.Split(*groups, ","), *file)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

// read parses the values of the flags -unseen (a list of seeds) and -only (a regular expression).
func (s *settings) read(unseen, only string) (err error) {
	for _, f := range strings.FieldsFunc(unseen, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(f)
		if err != nil || n == s.seed {
			return fmt.Errorf("-unseen %s: want seeds other than %d, separated by commas", unseen, s.seed)
		}
		s.unseen = append(s.unseen, n)
	}
	if only != "" {
		s.only, err = regexp.Compile(only)
	}
	return err
}

// run runs the sample of each group, and prints the table and the mutants that no test detected.
func (s *settings) run(ctx context.Context, groups []string, file string) error {
	r, err := open(file)
	if err != nil {
		return err
	}
	var results []*group
	for _, name := range groups {
		g, err := s.group(ctx, name, r)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		results = append(results, g)
		if ctx.Err() != nil {
			break
		}
	}
	if s.list {
		return nil
	}
	report(os.Stdout, results)
	return judge(results, s.least)
}

// group finds the mutants of a group, draws the sample, and runs the mutants that have no result for the current sources.
func (s *settings) group(ctx context.Context, name string, r *record) (*group, error) {
	g, err := load(s.module, "pkg/"+name)
	if err != nil {
		return nil, err
	}
	g.draw(s)
	if s.list {
		for _, m := range g.sample {
			fmt.Println(m)
		}
		return g, nil
	}
	todo := r.missing(g)
	if len(todo) == 0 {
		return g, nil
	}
	return g, s.kill(ctx, g, todo, r)
}

// kill compiles the mutants in todo, measures the CPU time of each test, and runs the tests with each mutant.
func (s *settings) kill(ctx context.Context, g *group, todo []*mutant, r *record) error {
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p := &programs{root: g.root, dir: dir, mutants: todo, limit: s.limit}
	if err := p.build(ctx, g); err != nil {
		return err
	}
	if err := p.measure(ctx, s.parallel); err != nil {
		return err
	}
	return p.run(ctx, s.parallel, r)
}
