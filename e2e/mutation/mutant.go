package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// A mutant is one small change of the product.
type mutant struct {
	identity
	Line int

	pkg        *packages.Package
	id         int // number of the mutant in the test programs, from 1
	places     []place
	equivalent string // why the change does not change the behavior; empty: not listed as equivalent
	digest     string // hash of the group's files
	result     result
}

// An identity distinguishes a mutant from all other mutants of the module. It does not change when lines are added above the mutant.
type identity struct {
	File     string // path relative to the module
	Function string // name of the function, or of the declared variable or constant
	Operator string
	Before   string
	After    string
	Repeat   int `json:",omitempty"` // number of earlier mutants in the file whose other fields are equal
}

func (i identity) String() string {
	return fmt.Sprintf("%s %s %s: %s -> %s (%d)", i.File, i.Function, i.Operator, i.Before, i.After, i.Repeat)
}

func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d %s %s: %s -> %s", m.File, m.Line, m.Function, m.Operator, m.Before, m.After)
}

// A place is the part of a file that a mutant replaces.
type place struct {
	file       string     // path relative to the module
	start, end int        // offsets in the file
	typ        types.Type // type of the replaced expression; nil for a statement
	text       string     // the replacement
}

// A group is a package with its sub-packages.
type group struct {
	root   string // directory of the module
	dir    string // directory of the package, relative to the module
	all    []*mutant
	sample []*mutant
	digest string // hash of all files of the group, including tests and test data, without comments
}

// load finds all mutants of the packages below a directory of the module.
func load(module, dir string) (*group, error) {
	root, err := filepath.Abs(module)
	if err != nil {
		return nil, err
	}
	loaded, err := packages.Load(&packages.Config{
		Dir: root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedSyntax |
			packages.NeedTypes | packages.NeedTypesInfo | packages.NeedExportFile,
	}, "./"+dir+"/...")
	if err != nil {
		return nil, err
	}
	g := &group{root: root, dir: dir}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, p.Errors[0]
		}
		f := &finder{pkg: p, fixed: map[ast.Node]bool{}, uses: map[types.Object][]place{}}
		if err := f.find(root); err != nil {
			return nil, err
		}
		g.all = append(g.all, f.found...)
	}
	if len(g.all) == 0 {
		return nil, fmt.Errorf("no mutants below %s", filepath.Join(root, dir))
	}
	if g.digest, err = digest(root, dir); err != nil {
		return nil, err
	}
	return g, g.excuse(equivalents)
}

// draw selects the sample of the group. It hashes the identity of each mutant together with the seed, and selects the mutants with the
// smallest hashes. A change of the code therefore replaces only a few mutants of the sample.
func (g *group) draw(s *settings) {
	if s.only != nil {
		for _, m := range g.all {
			if s.only.MatchString(m.String()) {
				g.sample = append(g.sample, m)
			}
		}
		return
	}
	seen := map[identity]bool{}
	for _, seed := range s.unseen {
		for _, m := range drawn(g.all, seed, s.size) {
			seen[m.identity] = true
		}
	}
	rest := slices.DeleteFunc(slices.Clone(g.all), func(m *mutant) bool { return seen[m.identity] })
	g.sample = drawn(rest, s.seed, s.size)
}

// drawn returns the sample of a seed, sorted by file and line.
func drawn(all []*mutant, seed, size int) []*mutant {
	type ranked struct {
		*mutant
		hash string
	}
	var order []ranked
	for _, m := range all {
		h := sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, m.identity))
		order = append(order, ranked{m, string(h[:])})
	}
	slices.SortFunc(order, func(a, b ranked) int { return strings.Compare(a.hash, b.hash) })
	var sample []*mutant
	for _, r := range order[:min(size, len(order))] {
		sample = append(sample, r.mutant)
	}
	slices.SortFunc(sample, func(a, b *mutant) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.places[0].start, b.places[0].start))
	})
	return sample
}
