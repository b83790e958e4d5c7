package pkg_test

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// evaluationPackages are the packages that compare policies with other autoscalers. Such a comparison uses all CPU cores for minutes, so
// the controller must not import these packages.
var evaluationPackages = []string{
	"replay/evaluate", "replay/lowerbound", "replay/simulator", "replay/hpa", "replay/scenario", "replay/report", "replay/spotbench",
	"replay/tune", "replay/advise", "replay/demo", "replay/decisions",
}

// evaluationCommands are the files of cmd/gpuscaler that may import evaluationPackages: each is a subcommand that a user runs, and no part
// of the controller.
var evaluationCommands = []string{
	"main.go",
}

// TestControllerDoesNotImportEvaluation checks that no file of cmd/gpuscaler outside evaluationCommands imports an evaluation package,
// directly or through another package.
func TestControllerDoesNotImportEvaluation(t *testing.T) {
	direct := importsOfController(t)
	for _, used := range []string{"engine", "cluster", "replay/record"} {
		if !slices.Contains(direct, module+used) {
			t.Errorf("run does not import %s: this test reads the wrong files", used)
		}
	}
	for _, found := range evaluationIn(dependenciesOf(t, direct)) {
		t.Errorf("the controller reaches %s: move the shared code to a package of its own", found)
	}
	if found := evaluationIn(dependenciesOf(t, []string{module + "replay/tune"})); !slices.Contains(found, "replay/simulator") {
		t.Errorf("tune reaches %v, want the simulator among them: this test finds nothing", found)
	}
}

// importsOfController returns the packages of this module that cmd/gpuscaler imports outside the evaluation commands.
func importsOfController(t *testing.T) (direct []string) {
	t.Helper()
	files, err := filepath.Glob("../cmd/gpuscaler/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of cmd/gpuscaler: %v", err)
	}
	for _, file := range files {
		if name := filepath.Base(file); strings.HasSuffix(name, "_test.go") || slices.Contains(evaluationCommands, name) {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range tree.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(path, module) && !slices.Contains(direct, path) {
				direct = append(direct, path)
			}
		}
	}
	return direct
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

// evaluationIn returns the evaluation packages among paths, each once.
func evaluationIn(paths []string) (found []string) {
	for _, path := range paths {
		if name, ours := strings.CutPrefix(path, module); ours && slices.Contains(evaluationPackages, name) && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return found
}
