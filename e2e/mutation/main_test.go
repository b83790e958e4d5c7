package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// module creates a module with one package, pkg/small, from the given source and tests. It returns the directory.
func module(t *testing.T, source, tests string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/small\n\ngo 1.26\n", "pkg/small/small.go": "package small\n" + source,
		"pkg/small/small_test.go": "package small\nimport \"testing\"\n" + tests,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// operators contains a small source for each mutation operator, and the expected mutants: operator, code before, code after.
var operators = []struct {
	name, source string
	want         []string
}{
	{"comparisons", `func f(a, b int) { for a < b && a == 3 {} }`, []string{
		"comparison: a < b -> a >= b", "boundary: a < b -> a <= b", "comparison: a == 3 -> a != 3", "constant: 3 -> 4", "constant: 3 -> 2",
		"logic: a < b && a == 3 -> a < b || a == 3",
	}},
	{"conditions", `func f(a bool, g func() bool) { if a || !g() {}; if a {}; switch { case g(): }; for !a {} }`, []string{
		"logic: a || !g() -> a && !g()", "condition: a -> !a", "condition: !g() -> g()", "condition: a -> !a", "condition: g() -> !g()",
		"condition: !a -> a",
	}},
	{"arithmetic", `func f(a, b int, s string) { a = a + b*b - -b; a -= b; a++; s = s + s; s += s; for i := 0; ; i++ {} }`, []string{
		"arithmetic: a + b*b - -b -> a + b*b + -b", "arithmetic: a + b*b -> a - b*b", "arithmetic: b*b -> b / b", "arithmetic: -b -> b",
		"arithmetic: a -= b -> a += b", "arithmetic: a++ -> a--", "constant: 0 -> 1", "constant: 0 -> (-1)",
		"statement: a = a + b*b - -b -> removed", "statement: a -= b -> removed", "statement: a++ -> removed", "statement: s = s + s -> removed",
		"statement: s += s -> removed",
	}},
	{"division by zero is not a mutant", `func f(a float64) { _ = a * 0.0 }`, []string{"constant: 0.0 -> 1", "constant: 0.0 -> (-1)"}},
	{"statements", `func f(g func(), m map[int]int, x any) { g(); defer g(); delete(m, len(m)); _ = x; y := x; _ = y; for { break } }`,
		[]string{"statement: g() -> removed", "statement: defer g() -> removed", "statement: delete(m, len(m)) -> removed",
			"statement: break -> removed"}},
	{"locks", "import \"sync\"\nfunc f(m *sync.Mutex) { m.Lock(); defer m.Unlock() }", nil},
	{"branches", `func f(a bool, g func()) int { if a { g() } else { g() }; if a { return len("") } else { return cap([]int{}) } }`, []string{
		"condition: a -> !a", "branch: else { g() } -> no else", "statement: g() -> removed", "statement: g() -> removed", "condition: a -> !a",
		"result: cap([]int{}) -> 0",
	}},
	{"results", `func f(a bool, n int, s string, e error, p *int) (bool, int, string, error, *int) {
			if false { return true, 7, "", nil, nil }
			return a, n, s, e, p
		}`, []string{
		"condition: false -> !false", "boolean: false -> true", "boolean: true -> false", "constant: 7 -> 8", "constant: 7 -> 6",
		"result: a -> !a", "result: n -> 0", `result: s -> ""`, "result: e -> nil",
	}},
	{"constants", "import \"time\"\nconst wait = 5 * time.Minute\nconst two = 2\nconst four = 2 * two\ntype k [two]int\n" +
		"var w = wait\nvar f uint = four\nfunc u() uint { return 0 }\nvar l = [...]int{two: 0}\nvar m = map[int]int{1 << 7: 9}", []string{
		"constant: 5 * time.Minute -> 6 * time.Minute", "constant: 5 * time.Minute -> 4 * time.Minute",
		"constant: 2 * two -> 3 * two", "constant: 2 * two -> 1 * two",
		"constant: 0 -> 1", // without -1, because the type is unsigned
		"constant: 0 -> 1", "constant: 0 -> (-1)", "constant: 9 -> 10", "constant: 9 -> 8",
	}},
}

func TestOperators(t *testing.T) {
	for _, o := range operators {
		t.Run(o.name, func(t *testing.T) {
			g, err := load(module(t, o.source, ""), "pkg/small")
			var got []string
			if err != nil {
				if o.want == nil && strings.Contains(err.Error(), "no mutants") {
					return
				}
				t.Fatal(err)
			}
			for _, m := range g.all {
				got = append(got, m.Operator+": "+m.Before+" -> "+m.After)
			}
			want := slices.Clone(o.want)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

const share = `
// Share returns a part of total in percent, at most 100.
func Share(part, total int) int {
	if part < 0 || total <= 0 {
		return 0
	}
	if share := part * 100 / total; share < 100 {
		return share
	}
	return 100
}

func endless(n int) int {
	for n > 0 {
		n--
	}
	return n
}

func unused() bool { return true }

func largest() byte { return 255 }
`

const tests = `
func TestShare(t *testing.T) {
	for _, x := range [][3]int{{1, 4, 25}, {-1, 4, 0}, {1, 0, 0}, {1, 1, 100}, {1, -1, 0}, {3, 2, 100}, {100, 101, 99}} {
		if got := Share(x[0], x[1]); got != x[2] {
			t.Fatalf("Share(%d, %d) = %d, want %d", x[0], x[1], got, x[2])
		}
	}
}

func TestEndless(t *testing.T) {
	if endless(3) != 0 {
		t.Fatal()
	}
}

func TestLargest(t *testing.T) {
	if largest() != 255 {
		t.Fatal()
	}
}
`

// run runs all mutants of a module. It returns the table, and the error about the score.
func run(t *testing.T, dir string, list ...equivalent) (table, judgment string) {
	t.Helper()
	s := &settings{module: dir, size: 1000, parallel: 2, least: 85, limit: time.Second}
	r, err := open(filepath.Join(dir, "record.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.group(context.Background(), "small", r)
	if err == nil {
		err = g.excuse(list)
	}
	if err != nil {
		return "", err.Error()
	}
	var out bytes.Buffer
	report(&out, []*group{g})
	if err := judge([]*group{g}, s.least); err != nil {
		judgment = err.Error()
	}
	return out.String(), judgment
}

func expect(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !regexp.MustCompile(w).MatchString(out) {
			t.Errorf("the output lacks %q:\n%s", w, out)
		}
	}
}

// The tests of a small package detect most mutants. Five undetected mutants have no effect, and the sixth is in a function that the tests
// do not call. Two mutants make a loop endless. The compiler rejects a mutant with a byte of 256, and the build then also omits the other
// mutant on the same line. The command must fail, because the score is too low. Then the test deletes all lines of the results after the
// fifth line, as after an interruption. The next command must continue and print the same table. After two undetected mutants are listed as
// equivalent, the score must be sufficient. After a change of the tests, all mutants must run again.
func TestMutantsOfASmallPackage(t *testing.T) {
	dir := module(t, share, tests)
	first, judgment := run(t, dir)
	expect(t, first,
		`survived pkg/small/small.go:5 Share boundary: part < 0 -> part <= 0`,
		`survived pkg/small/small.go:5 Share constant: 0 -> 1`,
		`survived pkg/small/small.go:8 Share boundary: share < 100 -> share <= 100`,
		`survived pkg/small/small.go:8 Share constant: 100 -> 101`,
		`survived pkg/small/small.go:18 endless result: n -> 0`,
		`survived pkg/small/small.go:21 unused boolean: true -> false`,
		`pkg/small +32 +32 +22 +2 +6 +0 +2 +0 +80.0%`)
	if n := strings.Count(first, "survived pkg"); n != 6 {
		t.Errorf("%d survivors, want 6:\n%s", n, first)
	}
	expect(t, judgment, "the score is 80.0%, want at least 85%")

	file := filepath.Join(dir, "record.jsonl")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(b), "\n")
	if err := os.WriteFile(file, []byte(strings.Join(lines[:5], "")+lines[5][:20]+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if again, _ := run(t, dir); again != first {
		t.Errorf("after an interruption:\n%s\nwant\n%s", again, first)
	}

	below := identity{File: "pkg/small/small.go", Function: "Share", Operator: "boundary", Before: "share < 100", After: "share <= 100"}
	zero := identity{File: "pkg/small/small.go", Function: "Share", Operator: "boundary", Before: "part < 0", After: "part <= 0"}
	table, judgment := run(t, dir, equivalent{below, "both branches return 100"}, equivalent{zero, "0 percent"})
	expect(t, table, `equivalent .* share < 100 -> share <= 100: both branches return 100`, `pkg/small +32 +32 +22 +2 +4 +2 +2 +0 +85.7%`)
	if judgment != "" {
		t.Error(judgment)
	}
	_, judgment = run(t, dir, equivalent{identity{below.File, "Share", "boundary", "total <= 0", "total < 0", 0}, "wrong"})
	expect(t, judgment, "TestShare fails for a mutant that is listed as equivalent")
	_, judgment = run(t, dir, equivalent{identity{File: below.File, Function: "Gone"}, "old"})
	expect(t, judgment, "the code no longer has the mutant pkg/small/small.go Gone")

	if err := os.WriteFile(filepath.Join(dir, "pkg/small/small_test.go"), []byte("package small\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	table, _ = run(t, dir)
	expect(t, table, `pkg/small +32 +32 +0 +0 +30 +0 +2 +0 +0.0%`)
}

// The sample must depend only on the seed and the mutants. Code that is added before a mutant must not change the sample.
func TestSamplesFollowFromTheSeed(t *testing.T) {
	sample := func(source string, s settings) (lines []string) {
		s.size = 6
		g, err := load(module(t, source, ""), "pkg/small")
		if err != nil {
			t.Fatal(err)
		}
		g.draw(&s)
		for _, m := range g.sample {
			lines = append(lines, m.identity.String())
		}
		return lines
	}
	one := sample(share, settings{seed: 1})
	if len(one) != 6 {
		t.Errorf("%d mutants, want 6", len(one))
	}
	if moved := sample("\n\nfunc first() {}\n"+share, settings{seed: 1}); !slices.Equal(moved, one) {
		t.Errorf("after lines were added: %q, want %q", moved, one)
	}
	two := sample(share, settings{seed: 2})
	if slices.Equal(two, one) {
		t.Error("seeds 1 and 2 have the same sample")
	}
	for _, m := range sample(share, settings{seed: 2, unseen: []int{1}}) {
		if slices.Contains(one, m) {
			t.Errorf("%s is in the sample of seed 1", m)
		}
	}
	if chosen := sample(share, settings{only: regexp.MustCompile("small.go:21 ")}); len(chosen) != 1 {
		t.Errorf("chosen by line: %q, want one mutant", chosen)
	}
}
