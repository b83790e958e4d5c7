package pkg_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The documentation of each package must begin with "Package NAME " or "Command NAME ". Each package below pkg that the binary links must
// also have an Example.
func TestEveryPackageHasDocumentationAndAnExample(t *testing.T) {
	linked := dependenciesOf(t, []string{"../cmd/gpuscaler"})
	for dir, p := range documentedPackages(t) {
		if p.product && !p.documented {
			t.Errorf("%s: the documentation does not begin with Package or Command and the name", dir)
		}
		if slices.Contains(linked, module+filepath.ToSlash(dir)) && !p.example {
			t.Errorf("%s: the package has no Example", dir)
		}
	}
}

// documentedPackage records whether a package has files other than tests, documentation and an Example.
type documentedPackage struct{ product, documented, example bool }

// documentedPackages returns what each package below pkg and cmd contains, by directory.
func documentedPackages(t *testing.T) map[string]documentedPackage {
	t.Helper()
	all := map[string]documentedPackage{}
	for _, root := range []string{".", "../cmd"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || filepath.Dir(path) == "." {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			p, name := all[filepath.Dir(path)], file.Name.Name
			if strings.HasSuffix(path, "_test.go") {
				p.example = p.example || slices.ContainsFunc(file.Decls, isExample)
			} else {
				doc := file.Doc.Text()
				p.product = true
				p.documented = p.documented || strings.HasPrefix(doc, "Package "+name+" ") || name == "main" && strings.HasPrefix(doc, "Command ")
			}
			all[filepath.Dir(path)] = p
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func isExample(d ast.Decl) bool {
	f, ok := d.(*ast.FuncDecl)
	return ok && strings.HasPrefix(f.Name.Name, "Example")
}
