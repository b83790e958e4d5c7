package pkg_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// evaluationPackages contains the packages that compare policies with other autoscalers. A comparison uses all CPU cores for minutes, so
// the controller must not import these packages.
var evaluationPackages = []string{
	"replay/evaluate", "replay/search", "replay/lowerbound", "replay/simulator", "replay/hpa", "replay/scenario", "replay/report",
	"replay/spotbench", "replay/tune", "replay/advise", "replay/demo", "replay/decisions",
}

// commands is the prefix of the import paths of the command packages and of the package commandline, which all of them import.
const commands = "github.com/gpuscaler/gpuscaler/cmd/gpuscaler/"

// commandsWithoutEvaluation contains the command packages that must not import evaluationPackages, directly or through another package. The
// packages evaluate and costs may import them: `gpuscaler audit` in package costs replays traffic.
var commandsWithoutEvaluation = []string{"commandline", "controller", "inspect", "policies"}

// TestControllerDoesNotImportEvaluation checks that no package of commandsWithoutEvaluation imports an evaluation package, directly or
// through another package.
func TestControllerDoesNotImportEvaluation(t *testing.T) {
	for _, name := range commandsWithoutEvaluation {
		for _, found := range evaluationIn(dependenciesOf(t, []string{commands + name})) {
			t.Errorf("cmd/gpuscaler/%s reaches %s: move the shared code to a package of its own", name, found)
		}
	}
	reached := dependenciesOf(t, []string{commands + "controller"})
	for _, used := range []string{"engine", "cluster", "replay/record"} {
		if !slices.Contains(reached, module+used) {
			t.Errorf("run does not reach %s: this test reads the wrong package", used)
		}
	}
	if found := evaluationIn(dependenciesOf(t, []string{commands + "evaluate"})); !slices.Contains(found, "replay/simulator") {
		t.Errorf("evaluate reaches %v, want the simulator among them: this test finds nothing", found)
	}
}

// TestCommandsShareOnlyCommandline checks that a command package imports no other command package, so that a change affects only the
// commands of one package.
func TestCommandsShareOnlyCommandline(t *testing.T) {
	for _, name := range []string{"controller", "costs", "evaluate", "inspect", "policies"} {
		own := commands + name
		reached := dependenciesOf(t, []string{own})
		if !slices.Contains(reached, commands+"commandline") {
			t.Errorf("%s does not reach commandline: this test reads the wrong package", own)
		}
		for _, other := range reached {
			if strings.HasPrefix(other, commands) && other != own && other != commands+"commandline" {
				t.Errorf("%s reaches %s: move what both need to commandline or to a package of pkg", own, other)
			}
		}
	}
	for _, other := range dependenciesOf(t, []string{commands + "commandline"}) {
		if strings.HasPrefix(other, commands) && other != commands+"commandline" {
			t.Errorf("commandline reaches %s: it contains no command", other)
		}
	}
}

func dependenciesOf(t *testing.T, paths []string) []string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-deps=false", "-json=Deps,ImportPath"}, paths...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := slices.Clone(paths)
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p goPackage
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p.Deps...)
	}
	return all
}

// evaluationIn returns the import paths in paths that are evaluation packages or packages below them, without duplicates.
func evaluationIn(paths []string) (found []string) {
	for _, path := range paths {
		name, ours := strings.CutPrefix(path, module)
		within := func(p string) bool { return name == p || strings.HasPrefix(name, p+"/") }
		if ours && slices.ContainsFunc(evaluationPackages, within) && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return found
}
