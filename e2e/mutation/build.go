package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// programs contains the compiled test programs of a group of packages. They contain all mutants of the group's sample.
type programs struct {
	root    string // directory of the module
	dir     string
	mutants []*mutant
	invalid []*mutant // the mutants that the compiler rejects
	limit   time.Duration
	tests   []*test
	written map[string]string // for each changed file of the module, the file that replaces it
}

// builds is the maximum number of builds. Each build omits the mutants that the compiler rejected in the previous build.
const builds = 5

// build compiles the tests of the group with the mutants. A mutant that the compiler rejects has no effect on the score.
func (p *programs) build(ctx context.Context, g *group) error {
	for range builds {
		if err := p.overlay(); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s: compiling the tests with %d mutants\n", g.dir, len(p.mutants))
		c := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", filepath.Join(p.dir, "overlay.json"),
			"-o", p.dir+string(filepath.Separator), "./"+g.dir+"/...")
		c.Dir = p.root
		out, err := c.CombinedOutput()
		if err == nil {
			return p.list(ctx, g)
		}
		if ctx.Err() != nil || !p.reject(out) {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
	return fmt.Errorf("the compiler still rejects mutants after %d builds", builds)
}

// overlay writes the changed source files. It also writes the file for the go command's flag -overlay, which lists the changed files.
func (p *programs) overlay() error {
	p.written = map[string]string{}
	replace := map[string]string{}
	write := func(path, text string) error {
		name := "overlay" + strconv.Itoa(len(replace)) + ".go"
		to := filepath.Join(p.dir, name)
		replace[filepath.Join(p.root, path)], p.written[name] = to, path
		return os.WriteFile(to, []byte(text), 0o600)
	}
	byPackage := map[*types.Package][]*mutant{}
	for i, m := range p.mutants {
		m.id = i + 1
		byPackage[m.pkg.Types] = append(byPackage[m.pkg.Types], m)
	}
	for pkg, mutants := range byPackage {
		c := &schema{pkg: pkg, names: map[string]int{}}
		for file, s := range sites(mutants) {
			source, err := os.ReadFile(filepath.Join(p.root, file))
			if err != nil {
				return err
			}
			if err := write(file, c.file(source, s)); err != nil {
				return err
			}
		}
		if err := write(filepath.Join(filepath.Dir(mutants[0].File), "mutation_selector.go"), c.declarations(len(p.mutants))); err != nil {
			return err
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.dir, "overlay.json"), b, 0o600)
}

var compilerError = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):`)

// reject removes the mutants on lines for which the compiler reported an error. It returns true if it removed a mutant.
func (p *programs) reject(out []byte) bool {
	before := len(p.mutants)
	for _, found := range compilerError.FindAllSubmatch(out, -1) {
		file := p.written[filepath.Base(string(found[1]))]
		line, _ := strconv.Atoi(string(found[2]))
		p.mutants = slices.DeleteFunc(p.mutants, func(m *mutant) bool {
			rejected := slices.ContainsFunc(m.places, func(x place) bool {
				return x.file == file && p.line(x.file, x.start) <= line && line <= p.line(x.file, x.end)
			})
			if rejected {
				m.result.Outcome = invalid
				p.invalid = append(p.invalid, m)
			}
			return rejected
		})
	}
	return len(p.mutants) < before
}

func (p *programs) line(file string, offset int) int {
	source, err := os.ReadFile(filepath.Join(p.root, file))
	if err != nil {
		return 0
	}
	return 1 + bytes.Count(source[:offset], []byte("\n"))
}

// list runs each test program with -test.list to get the names of its tests.
func (p *programs) list(ctx context.Context, g *group) error {
	found, err := filepath.Glob(filepath.Join(p.dir, "*.test"))
	if err != nil {
		return err
	}
	packages := map[string]string{} // directory of the package, by test program
	for _, m := range g.all {
		packages[filepath.Base(filepath.Dir(m.File))] = filepath.Dir(m.File)
	}
	for _, program := range found {
		name := strings.TrimSuffix(filepath.Base(program), ".test")
		dir, ok := packages[name]
		if !ok {
			continue
		}
		c := exec.CommandContext(ctx, program, "-test.list", "^(Test|Fuzz|Example)")
		c.Dir = filepath.Join(p.root, dir)
		out, err := c.Output()
		if err != nil {
			return fmt.Errorf("list the tests of %s: %w", dir, err)
		}
		for t := range strings.FieldsSeq(string(out)) {
			p.tests = append(p.tests, &test{program: program, dir: dir, name: t})
		}
	}
	return nil
}
