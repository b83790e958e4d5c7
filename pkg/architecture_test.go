// Package pkg_test checks rules for the whole code base, for example which packages a package may import and where the clock may be read. A
// failure prints the reason of the violated rule.
package pkg_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gpuscaler/gpuscaler/pkg/"

// rule defines which packages one package may import.
type rule struct {
	name   string
	ours   []string // packages of this module that the package may import, directly or transitively
	direct []string // packages that the package must not import directly
	never  []string // prefixes of forbidden imports, direct or transitive; "." is every package outside the standard library
	reason string
}

var impure = []string{"os", "log", "log/slog", "net", "net/http", "context"}

var plan = []rule{
	{"calendar", nil, impure, []string{"."}, "decisions are pure functions and import only the standard library"},
	{"scaling", []string{"calendar"}, impure, []string{"."}, "decisions are pure functions and import only the standard library and calendar"},
	{"capacity", []string{"calendar"}, impure, []string{"."},
		"decisions are pure functions and import only the standard library and calendar"},
	{"cost", []string{"picture"}, impure, []string{"."}, "cost arithmetic is pure, so that reports and live pages compute the same sum"},
	{"picture", nil, impure, []string{"."}, "charts are pure functions that pages and reports of any package use"},
	{"golden", nil, nil, []string{"."}, "tests of every package compare files, so that it must not depend on any of them"},
	{"shareddata", nil, nil, []string{"."}, "tests of every package read recordings, so that it must not depend on any of them"},
	{"printable", nil, impure, []string{"."}, "whether text can be shown on a terminal depends on the text alone"},
	{"teams", nil, impure, []string{"."}, "the decision is a function of values and imports only the standard library"},
	{"engine", []string{"calendar", "scaling", "capacity", "teams"}, nil, []string{"."},
		"the loop uses interfaces only, so that the live controller and the simulator run the same Tick"},
	{"policy", []string{"calendar", "scaling", "capacity", "cost", "printable"}, nil, []string{"k8s.io/client-go"},
		"policies are validated without a cluster, for example in the CI of a team"},
	{"telemetry", []string{"calendar", "scaling", "capacity", "teams", "cost", "engine", "policy", "printable"}, nil, nil,
		"signal sources do not depend on what scales, serves or simulates"},
	{"cluster", []string{"calendar", "scaling", "capacity", "teams", "cost", "engine", "policy", "printable", "lint"}, nil, nil,
		"the Kubernetes adapter does not depend on the signal sources"},
	{"lint", []string{"calendar", "scaling", "capacity", "teams", "cost", "engine", "policy", "printable", "telemetry"}, nil,
		[]string{"k8s.io/client-go"}, "lint runs without a cluster, for example in the CI of a team"},
	{"serve", nil, nil, nil, "limits on clients are the same for every port"},
	{"externalmetrics", []string{"calendar", "scaling", "capacity", "teams", "engine", "serve"}, nil, nil,
		"a server reads the decisions from memory, so that no request waits for I/O"},
	{"dashboard", []string{"calendar", "scaling", "capacity", "teams", "engine", "picture", "cost"}, nil, nil,
		"a server reads the decisions from memory, so that no request waits for I/O"},
	{"migrate", []string{"calendar", "scaling", "capacity", "cost", "policy", "printable"}, nil, []string{"k8s.io/client-go"},
		"an import prints manifests, which are reviewed without a cluster"},
	{"replay", []string{"calendar", "scaling", "capacity", "teams", "cost", "engine", "policy", "printable", "picture"}, nil,
		[]string{"k8s.io/client-go"}, "the simulator is a second adapter behind the interfaces of the engine"},
	{"audit", []string{"calendar", "scaling", "capacity", "teams", "cost", "engine", "policy", "printable", "picture", "replay",
		"telemetry"}, nil, []string{"k8s.io/client-go"}, "an audit works on a snapshot file, without a cluster"},
}

func TestPackagesReachOnlyWhatThePlanAllows(t *testing.T) {
	for _, p := range packages(t) {
		name, _, _ := strings.Cut(strings.TrimPrefix(p.ImportPath, module), "/")
		i := slices.IndexFunc(plan, func(r rule) bool { return r.name == name })
		if i < 0 {
			t.Errorf("%s is not in the plan: add it with the packages that it may import, or move it", p.ImportPath)
			continue
		}
		for _, found := range plan[i].breaches(p) {
			t.Errorf("%s reaches %s: %s", p.ImportPath, found, plan[i].reason)
		}
	}
}

func (r rule) breaches(p goPackage) (found []string) {
	for _, dep := range p.Deps {
		if ours, is := strings.CutPrefix(dep, module); is {
			if other, _, _ := strings.Cut(ours, "/"); other != r.name && !slices.Contains(r.ours, other) {
				found = append(found, dep)
			}
			continue
		}
		for _, prefix := range r.never {
			first, _, _ := strings.Cut(dep, "/")
			if prefix == "." && strings.Contains(first, ".") || strings.HasPrefix(dep, prefix+"/") {
				found = append(found, dep)
			}
		}
	}
	for _, dep := range p.Imports {
		if slices.Contains(r.direct, dep) {
			found = append(found, dep)
		}
	}
	return found
}

// TestObjectiveImportsOnlyTheStandardLibrary checks a package whose import rule is stricter than the rule of its parent package.
func TestObjectiveImportsOnlyTheStandardLibrary(t *testing.T) {
	const name = module + "scaling/objective"
	all := packages(t)
	i := slices.IndexFunc(all, func(p goPackage) bool { return p.ImportPath == name })
	if i < 0 {
		t.Fatalf("no package %s", name)
	}
	strict := rule{name: name, direct: impure, never: []string{"."}}
	for _, found := range strict.breaches(all[i]) {
		t.Errorf("%s reaches %s: what is learned and decided for an objective is a pure function of evidence and time", name, found)
	}
}

// TestPackagesOfCapacityImportDownwards checks the imports among the packages capacity and capacity/*: each package may import only
// packages that are later in the list.
func TestPackagesOfCapacityImportDownwards(t *testing.T) {
	order := []string{"capacity", "capacity/weights", "capacity/override", "capacity/evidence",
		"capacity/statemachine", "capacity/explain", "capacity/nodepool"}
	found := 0
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if name != "capacity" && !strings.HasPrefix(name, "capacity/") {
			continue
		}
		found++
		at := slices.Index(order, name)
		if at < 0 {
			t.Errorf("%s is not in the list of packages: add it below the packages that import it", name)
			continue
		}
		for _, above := range order[:at] {
			if slices.Contains(p.Imports, module+above) {
				t.Errorf("%s imports %s: a part of the decision receives plain values and does not depend on the whole", name, above)
			}
		}
	}
	if found != len(order) {
		t.Errorf("found %d packages of %v", found, order)
	}
}

func TestForbiddenImportIsReported(t *testing.T) {
	scaling := plan[slices.IndexFunc(plan, func(r rule) bool { return r.name == "scaling" })]
	bad := goPackage{Imports: []string{"os", "time"},
		Deps: []string{"os", "time", "k8s.io/api/core/v1", module + "engine", module + "calendar"}}
	if got := scaling.breaches(bad); !slices.Equal(got, []string{"k8s.io/api/core/v1", module + "engine", "os"}) {
		t.Errorf("breaches = %v", got)
	}
}

// clock matches a use of the real clock. Such a use is allowed only on a line whose comment begins with "may use the clock:" and gives
// the reason.
var clock = regexp.MustCompile(`\btime\.(Now|Since|Until|After|AfterFunc|Sleep|NewTimer|NewTicker|Tick)\b`)

func TestOnlyNamedEdgesUseTheClock(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for n, line := range strings.Split(string(text), "\n") {
			code, comment, _ := strings.Cut(line, "//")
			if clock.MatchString(code) && !strings.HasPrefix(comment, " may use the clock: ") {
				t.Errorf("%s:%d uses the clock: now is an argument below cmd; where I/O needs the clock, end the line with "+
					"`// may use the clock: why`", path, n+1)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

type goPackage struct {
	ImportPath    string
	Imports, Deps []string
}

func packages(t *testing.T) (all []goPackage) {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps=false", "-json=ImportPath,Imports,Deps", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if p.ImportPath+"/" != module {
			all = append(all, p)
		}
	}
}
