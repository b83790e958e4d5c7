package pkg_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// maxComplexity is the largest cyclomatic complexity of a function.
const maxComplexity = 20

// complexFunctions have a higher complexity, each with the reason. README.md lists them as technical debt.
var complexFunctions = map[string]string{
	"scaling/decide.go apply":    "a switch with one call for each rule; a table of functions would make each tick allocate memory",
	"scaling/propose.go propose": "it collects six facts about the signals in one loop",
}

// TestFunctionsAreSimple fails for a function with too many branches, and for an exception that is not necessary. Closures count as part of
// their function.
func TestFunctionsAreSimple(t *testing.T) {
	found := map[string]bool{}
	for _, root := range []string{".", "../cmd"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Body == nil || complexity(f.Body) <= maxComplexity {
					continue
				}
				name := filepath.ToSlash(path) + " " + f.Name.Name
				if found[name] = true; complexFunctions[name] == "" {
					t.Errorf("%s: %s has a cyclomatic complexity of %d, at most %d: split it", set.Position(f.Pos()), f.Name.Name,
						complexity(f.Body), maxComplexity)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range complexFunctions {
		if !found[name] {
			t.Errorf("%s is in complexFunctions and is simple now: remove the entry", name)
		}
	}
}

// complexity returns the cyclomatic complexity: 1, plus 1 for each branch and for each operator && or || of a condition.
func complexity(body *ast.BlockStmt) int {
	n := 1
	ast.Inspect(body, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.CaseClause, *ast.CommClause:
			n++
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

func TestComplexityCountsBranches(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
func f(a, b bool, c []int) {
	if a && b || len(c) > 1 {
		for range c {
		}
	}
	switch {
	case a:
	default:
	}
}`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := complexity(file.Decls[0].(*ast.FuncDecl).Body); n != 7 {
		t.Errorf("complexity %d, want 7: if, &&, ||, for, two cases, and one", n)
	}
}
