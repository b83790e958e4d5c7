package main

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A property is a property test: a test that calls rapid.Check.
type property struct {
	Package string // directory of the package, relative to the module, for example pkg/scaling
	Test    string
}

func (p property) String() string { return p.Package + "." + p.Test }

// program returns the path of the test program of the property's package.
func (p property) program(dir string) string {
	return filepath.Join(dir, strings.ReplaceAll(p.Package, "/", "_")+".test")
}

// find returns the property tests in the product's packages whose names match chosen.
func find(module string, chosen *regexp.Regexp) ([]property, error) {
	var found []property
	for _, top := range []string{"cmd", "pkg"} {
		err := filepath.WalkDir(filepath.Join(module, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			dir, err := filepath.Rel(module, filepath.Dir(path))
			if err != nil {
				return err
			}
			names, err := properties(path)
			for _, name := range names {
				if chosen.MatchString(name) {
					found = append(found, property{Package: filepath.ToSlash(dir), Test: name})
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// properties returns the tests of a file that call rapid.Check.
func properties(path string) ([]string, error) {
	source, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(source, []byte("rapid.Check(")) {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, source, 0)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Body != nil && strings.HasPrefix(f.Name.Name, "Test") && callsCheck(f) {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}

func callsCheck(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Check" {
			x, ok := s.X.(*ast.Ident)
			found = found || ok && x.Name == "rapid"
		}
		return !found
	})
	return found
}

// build compiles the test programs of the packages that contain the property tests into a directory.
func build(ctx context.Context, module, dir string, found []property) error {
	for i, p := range found {
		if i > 0 && found[i-1].Package == p.Package {
			continue
		}
		fmt.Fprintf(os.Stderr, "building the tests of %s\n", p.Package)
		c := exec.CommandContext(ctx, "go", "test", "-c", "-o", p.program(dir), "./"+p.Package)
		c.Dir = module
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", p.Package, err, out)
		}
	}
	return nil
}
