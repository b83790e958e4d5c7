// Package components builds the real programs that the end-to-end tests run (the Kubernetes control plane, kwok, Prometheus, Karpenter,
// KEDA) from Go modules. It stores the binaries outside the repository.
//
// Each component has a directory with its own go.mod, because their requirements conflict and do not belong in the product's go.mod. A
// binary is cached in
//
//	${GPUSCALER_CACHE:-$HOME/.cache/gpuscaler}/components/<name>-<version>-<hash>/
//
// The hash includes everything that determines the result: the files of the directory, the flags, the platform. If two processes need the
// same component, one builds it and the other waits. For a cached component, only one stat call is needed.
package components

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/mod/modfile"
)

// Component describes how a set of binaries is built.
type Component struct {
	Name     string   // the directory below components/
	Module   string   // the module whose version is part of the name of the cache entry
	Packages []string // main packages; the binary has the base name of the package
	Set      []string // variables that the linker sets; {version}, {major} and {minor} are replaced
	Prune    []string // files deleted from a copy of Module before it is built
	OnDemand bool     // built only on request, because the build is slow and few tests need it
}

// All lists every component in build order.
var All = []Component{
	{
		Name: "kubernetes", Module: "k8s.io/kubernetes", Packages: []string{"."},
		// Without a version the API server reports v0.0.0-master+$Format, which some clients cannot parse.
		Set: []string{
			"k8s.io/component-base/version.gitVersion={version}",
			"k8s.io/component-base/version.gitMajor={major}",
			"k8s.io/component-base/version.gitMinor={minor}",
		},
	},
	{
		Name: "kwok", Module: "sigs.k8s.io/kwok", Packages: []string{"sigs.k8s.io/kwok/cmd/kwok"},
		Set: []string{"sigs.k8s.io/kwok/pkg/consts.Version={version}"},
	},
	{
		Name: "prometheus", Module: "github.com/prometheus/prometheus",
		Packages: []string{"github.com/prometheus/prometheus/cmd/prometheus"},
		Set:      []string{"github.com/prometheus/common/version.Version={version}"},
		// plugins.go is deleted because it imports the service discoveries of cloud providers: a third of the packages and most of the
		// compile time. minimum.go adds file and HTTP discovery.
		Prune: []string{"plugins/plugins.go"},
	},
	{
		Name: "karpenter", Module: "sigs.k8s.io/karpenter", Packages: []string{"."},
		Set: []string{"sigs.k8s.io/karpenter/pkg/operator.Version={version}"}, OnDemand: true,
	},
	{
		Name: "keda", Module: "github.com/kedacore/keda/v2",
		Packages: []string{
			"github.com/kedacore/keda/v2/cmd/operator",
			"github.com/kedacore/keda/v2/cmd/adapter",
			"github.com/kedacore/keda/v2/cmd/webhooks",
		},
		Set: []string{"github.com/kedacore/keda/v2/version.Version={version}"}, OnDemand: true,
	},
	{Name: "cert-manager", Module: "github.com/cert-manager/cert-manager", Packages: []string{"."}, OnDemand: true},
}

// Default lists the components that every end-to-end test needs.
func Default() []string {
	var names []string
	for _, c := range All {
		if !c.OnDemand {
			names = append(names, c.Name)
		}
	}
	return names
}

// Find returns the component with that name.
func Find(name string) (Component, error) {
	var known []string
	for _, c := range All {
		if c.Name == name {
			return c, nil
		}
		known = append(known, c.Name)
	}
	return Component{}, fmt.Errorf("unknown component %q: use one of %s", name, strings.Join(known, ", "))
}

// Version returns the version of the component with that name.
func Version(name string) (string, error) {
	c, err := Find(name)
	if err != nil {
		return "", err
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	r, err := newRecipe(root, c)
	return r.version, err
}

// recipe is everything that is needed to build a component: its directory, its version and the name of its cache entry.
type recipe struct {
	Component
	dir     string // the directory of the component
	version string // version of Module in go.mod
	entry   string // name of the cache entry
}

func newRecipe(root string, c Component) (recipe, error) {
	r := recipe{Component: c, dir: filepath.Join(root, "components", c.Name)}
	path := filepath.Join(r.dir, "go.mod")
	text, err := os.ReadFile(path)
	if err != nil {
		return recipe{}, err
	}
	mod, err := modfile.Parse(path, text, nil)
	if err != nil {
		return recipe{}, err
	}
	for _, req := range mod.Require {
		if req.Mod.Path == c.Module {
			r.version = req.Mod.Version
		}
	}
	if r.version == "" {
		return recipe{}, fmt.Errorf("%s does not require %s", path, c.Module)
	}
	sum, err := r.hash()
	if err != nil {
		return recipe{}, err
	}
	r.entry = fmt.Sprintf("%s-%s-%s", c.Name, r.version, sum)
	return r, nil
}

// hash returns a hash of everything that determines the binary. For example, a change of main.go or go.sum results in another cache entry.
func (r recipe) hash() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.GOOS, runtime.GOARCH, r.flags(), r.Packages, r.Prune)
	files, err := os.ReadDir(r.dir)
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.dir, f.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, f.Name(), len(text))
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

func (r recipe) flags() []string {
	link := "-s -w"
	part := strings.Split(strings.TrimPrefix(r.version, "v"), ".") // cannot fail: a module version always has three parts
	fill := strings.NewReplacer("{version}", r.version, "{major}", part[0], "{minor}", part[1])
	for _, v := range r.Set {
		link += " -X " + fill.Replace(v)
	}
	return []string{"-buildvcs=false", "-ldflags", link}
}

// binaries lists the file names in the cache entry of r.
func (r recipe) binaries() []string {
	var names []string
	for _, p := range r.Packages {
		if p == "." {
			p = r.Name
		}
		names = append(names, filepath.Base(p))
	}
	return names
}

// Cache returns the directory of the built components.
func Cache() (string, error) {
	dir := os.Getenv("GPUSCALER_CACHE")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("set GPUSCALER_CACHE: %w", err)
		}
		dir = filepath.Join(home, ".cache", "gpuscaler")
	}
	return filepath.Join(dir, "components"), nil
}

// Root finds the e2e directory from the working directory, which is the package's directory in a test.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "components", "kubernetes", "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("not inside the e2e module: no components/kubernetes/go.mod above the working directory")
		}
		dir = parent
	}
}
