// Package pkg_test holds the house rules: who may import whom, and who may read the clock. Each failure prints the written reason.
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

const house = "github.com/gpuscaler/gpuscaler/pkg/"

// room is one line of the plan: which of our rooms it may reach, and what it must never reach.
type room struct {
	name   string
	ours   []string // rooms of ours that it may reach, itself apart
	direct []string // packages that it must not import itself
	never  []string // prefixes that it must not reach even through others; "." stands for anything outside the standard library
	reason string
}

var impure = []string{"os", "log", "log/slog", "net", "net/http", "context"}

var plan = []room{
	{"calendar", nil, impure, []string{"."}, "the brain is a function of values and imports only the standard library"},
	{"scaling", []string{"calendar"}, impure, []string{"."}, "the brain is a function of values and imports only the standard library and the calendar"},
	{"capacity", []string{"calendar"}, impure, []string{"."}, "the brain is a function of values and imports only the standard library and the calendar"},
	{"cost", []string{"picture"}, impure, []string{"."}, "arithmetic about money is a function of values: the report over past days and whatever shows the present must come to one sum"},
	{"picture", nil, impure, []string{"."}, "a picture is a function of values: pages and reports of any room draw with it, and none of them is known here"},
	{"teams", nil, impure, []string{"."}, "the decision is a function of values and imports only the standard library"},
	{"engine", []string{"calendar", "scaling", "capacity", "teams"}, nil, []string{"."}, "the loop knows its ports only, so that the live cluster and the replay run the same Tick"},
	{"policy", []string{"calendar", "scaling", "capacity", "cost"}, nil, []string{"k8s.io/client-go"}, "what people write is checked without a cluster: validate runs in anybody's CI"},
	{"telemetry", []string{"calendar", "scaling", "capacity", "teams", "cost", "engine", "policy"}, nil, nil, "readings do not know who scales, serves or simulates"},
	{"cluster", []string{"calendar", "scaling", "capacity", "teams", "cost", "engine", "policy"}, nil, nil, "the hands do not know where the numbers come from"},
	{"lint", []string{"calendar", "scaling", "capacity", "teams", "cost", "engine", "policy", "telemetry"}, nil, []string{"k8s.io/client-go"}, "what a server holds is judged in anybody's CI; what objects in a cluster do wrong is judged where they are read"},
	{"externalmetrics", []string{"calendar", "scaling", "capacity", "teams", "engine"}, nil, nil, "an entrance reads the board and nothing else, so that no request waits for I/O"},
	{"dashboard", []string{"calendar", "scaling", "capacity", "teams", "engine", "picture"}, nil, nil, "an entrance reads the board and nothing else, so that no request waits for I/O"},
	{"migrate", []string{"calendar", "scaling", "capacity", "cost", "policy"}, nil, []string{"k8s.io/client-go"}, "a way in and a way back are texts: they are printed and reviewed without a cluster"},
	{"replay", []string{"calendar", "scaling", "capacity", "teams", "cost", "engine", "policy", "picture"}, nil, []string{"k8s.io/client-go"}, "the replay is another adapter behind the same ports, never another cluster"},
}

func TestEveryRoomReachesOnlyWhatThePlanAllows(t *testing.T) {
	for _, p := range packages(t) {
		name, _, _ := strings.Cut(strings.TrimPrefix(p.ImportPath, house), "/")
		i := slices.IndexFunc(plan, func(r room) bool { return r.name == name })
		if i < 0 {
			t.Errorf("%s is not a room of the plan: add it there with what it may reach, or move it home", p.ImportPath)
			continue
		}
		for _, found := range plan[i].breaches(p) {
			t.Errorf("%s reaches %s: %s", p.ImportPath, found, plan[i].reason)
		}
	}
}

func (r room) breaches(p goPackage) (found []string) {
	for _, dep := range p.Deps {
		if ours, is := strings.CutPrefix(dep, house); is {
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

func TestThePlanItselfCatchesABreach(t *testing.T) {
	scaling := plan[slices.IndexFunc(plan, func(r room) bool { return r.name == "scaling" })]
	bad := goPackage{Imports: []string{"os", "time"}, Deps: []string{"os", "time", "k8s.io/api/core/v1", house + "engine", house + "calendar"}}
	if got := scaling.breaches(bad); !slices.Equal(got, []string{"k8s.io/api/core/v1", house + "engine", "os"}) {
		t.Errorf("breaches = %v", got)
	}
}

// An I/O edge that reads the clock says so on the same line: it stamps what came from outside, or is handed to a library that waits.
var clock = regexp.MustCompile(`\btime\.(Now|Since|Until)\b`)

func TestOnlyNamedEdgesReadTheClock(t *testing.T) {
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
			if clock.MatchString(code) && !strings.Contains(comment, "I/O edge") {
				t.Errorf("%s:%d reads the clock: now is an argument below cmd; at an edge, end the line with `// I/O edge: why`", path, n+1)
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
		if p.ImportPath+"/" != house {
			all = append(all, p)
		}
	}
}
