package pkg_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

var (
	codeSpan = regexp.MustCompile("`([A-Za-z][\\w./-]*)`")
	fileName = regexp.MustCompile(`/|\.(go|html|js|json|md|yaml)$`)
)

// TestPathsInREADMEExist checks the paths in README.md: names with a slash or the ending of a file, and the first name in the last column
// of a table. A path is relative to this directory, to the root of the repository, or to the directory of the path before it in the line.
func TestPathsInREADMEExist(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	paths := 0
	for i, line := range strings.Split(string(text), "\n") {
		dir, place := ".", -1 // place is the position of the first name in the last column
		if row, is := strings.CutSuffix(line, " |"); is {
			place = strings.LastIndex(row, "| `") + len("| ")
		}
		for _, span := range codeSpan.FindAllStringSubmatchIndex(line, -1) {
			path := line[span[2]:span[3]]
			if span[0] != place && !fileName.MatchString(path) || strings.HasPrefix(path, "gpuscaler.io/") {
				continue
			}
			paths++
			if found := directoryOf(path, ".", "..", dir); found != "" {
				dir = found
			} else {
				t.Errorf("README.md:%d: %s does not exist", i+1, path)
			}
		}
	}
	if paths < 200 {
		t.Errorf("README.md has only %d paths: the test does not recognize them", paths)
	}
}

// directoryOf returns the directory of a file, or a directory itself, whose path is relative to one of the bases. It returns "" if the path
// does not exist.
func directoryOf(path string, bases ...string) string {
	for _, base := range bases {
		at := filepath.Join(base, path)
		if info, err := os.Stat(at); err == nil {
			if info.IsDir() {
				return at
			}
			return filepath.Dir(at)
		}
	}
	return ""
}
