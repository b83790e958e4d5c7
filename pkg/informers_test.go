package pkg_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// untransformed contains the files whose informers may have no transform, each with the reason.
var untransformed = map[string]string{
	"cluster/apiservice/guard.go": "its informer reads one object, the registration of the metrics API",
}

// TestInformersHaveTransforms checks that every informer has a transform, which removes unused fields. Without a transform, the cache
// contains whole objects, with the managed fields, the status and the pod templates of all workloads.
func TestInformersHaveTransforms(t *testing.T) {
	files, informers := token.NewFileSet(), 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		found, problems := informersWithoutTransform(file)
		informers += found
		if untransformed[filepath.ToSlash(path)] != "" && len(problems) > 0 {
			return nil
		}
		for _, p := range problems {
			t.Errorf("%s: %s: set a transform that keeps only the fields that are read, and add the kind to cachedKinds in package cluster",
				path, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if informers < 15 {
		t.Errorf("%d informers found, want at least 15: this test finds nothing", informers)
	}
}

// newInformer matches the functions of client-go that create an informer or another cache of objects.
var newInformer = regexp.MustCompile(`^New\w*(Informer|InformerWithOptions|InformerFactory|InformerFactoryWithOptions|Reflector)$`)

// informersWithoutTransform returns the number of informers that a file creates, and a text for each informer without a transform. An
// informer has a transform if the function that creates it calls SetTransform or creates a value of the type watched with all three fields.
// An informer.Kind has a transform if its field Trim is set.
func informersWithoutTransform(file *ast.File) (found int, problems []string) {
	for _, d := range file.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is || f.Body == nil {
			continue
		}
		created, set := 0, false
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if s, is := n.Fun.(*ast.SelectorExpr); is && newInformer.MatchString(s.Sel.Name) {
					created++
				} else if is && s.Sel.Name == "SetTransform" {
					set = true
				}
			case *ast.CompositeLit:
				if name, is := n.Type.(*ast.Ident); is && name.Name == "watched" && len(n.Elts) == 3 {
					set = true
				}
				if keys := keysOf(n); slices.Contains(keys, "GVK") && slices.Contains(keys, "Handler") {
					if found++; !slices.Contains(keys, "Trim") {
						problems = append(problems, fmt.Sprintf("a Kind in %s has no Trim", f.Name.Name))
					}
				}
			}
			return true
		})
		if found += created; created > 0 && !set {
			problems = append(problems, f.Name.Name+" creates an informer without a transform")
		}
	}
	return found, problems
}

// keysOf returns the names of the fields that a composite literal sets by name.
func keysOf(l *ast.CompositeLit) (names []string) {
	for _, e := range l.Elts {
		if pair, is := e.(*ast.KeyValueExpr); is {
			if name, is := pair.Key.(*ast.Ident); is {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

func TestInformerWithoutTransformIsReported(t *testing.T) {
	for text, want := range map[string]int{
		`i := core.NewPodInformer(c, "", 0, nil); i.Run(stop)`:                      1,
		`i := core.NewPodInformer(c, "", 0, nil); i.SetTransform(trim); i.Run(s)`:   0,
		`start(watched{core.NewPodInformer(c, "", 0, nil), trim, handler})`:         0,
		`start(watched{informer: core.NewFilteredPodInformer(c, "", 0, nil, nil)})`: 1,
		`f := informers.NewSharedInformerFactory(c, 0); f.Start(stop)`:              1,
		`add(&informer.Kind{GVK: pods, Handler: handler})`:                          1,
		`add(&informer.Kind{GVK: pods, Trim: trim, Handler: handler})`:              0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a\nfunc f() { "+text+" }", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if found, problems := informersWithoutTransform(file); found != 1 || len(problems) != want {
			t.Errorf("%s: %d informers, %v; want %d problems", text, found, problems, want)
		}
	}
}
