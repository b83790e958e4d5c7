package adapters

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/lab"
)

func TestDefinitionsOfTargets(t *testing.T) {
	for text, want := range map[string]string{
		"name: a\naddress: 127.0.0.1:1":                                      "",
		"name: a\ncommand: [/adapter, --secure-port=$(PORT)]":                "",
		"name: a\naddress: x:1\nworkloads: {jobs: {metric: m, divisor: 10}}": "",
		"name: a":                                   "set either command or address",
		"name: a/b\naddress: x:1":                   "without dots, slashes",
		"name: a\naddress: x:1\ncommand: [/a]":      "set either command or address",
		"name: a\naddress: x:1\nworkloads: {x: {}}": `no workload "x"`,
		"name: a\nadress: x:1":                      `unknown field "adress"`,
	} {
		_, err := parseDefinition([]byte(text))
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := Parse("no-such-file"); err == nil {
		t.Error("a file that does not exist is a target")
	}
	defined, err := parseDefinition([]byte("name: a\naddress: x:1\nworkloads: {jobs: {metric: m, divisor: 10}}"))
	if err != nil {
		t.Fatal(err)
	}
	served := 0
	for _, w := range lab.Workloads {
		if m, ok := defined.Metric(w); ok {
			if served++; m.Correct != 3.7 || m.Name != "m" {
				t.Errorf("%+v, want 37 jobs divided by 10", m)
			}
		}
	}
	if served != 1 {
		t.Errorf("%d workloads are served, want the workloads of the definition", served)
	}
}
