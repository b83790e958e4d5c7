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

// TestFunctionsAreSimple fails for a function whose cyclomatic complexity exceeds maxComplexity. Branches in closures count for the
// enclosing function.
func TestFunctionsAreSimple(t *testing.T) {
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
				if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && complexity(f.Body) > maxComplexity {
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
}

// complexity returns the cyclomatic complexity of a function body: 1, plus 1 for each branch and for each operator && or || of a condition.
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
