package commandline

import (
	"github.com/spf13/pflag"

	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// PolicyPaths is the flag --policies. Each value is a path with the namespaces that are allowed in it: the documents at the path may define
// policies of these namespaces only, and no PlatformConfig.
type PolicyPaths struct{ texts []string }

// Register registers the flag --policies.
func (p *PolicyPaths) Register(f *pflag.FlagSet) {
	f.StringArrayVar(&p.texts, "policies", nil, "NAMESPACE[,NAMESPACE...]=PATH: file or directory with policies of these namespaces only, "+
		"without a PlatformConfig; *=PATH: policies of every namespace; may be repeated")
}

// With returns the paths in trusted, followed by the paths of the flag --policies. At a trusted path, documents of every kind and namespace
// are accepted.
func (p *PolicyPaths) With(trusted []string) ([]store.Path, error) {
	paths := store.Trusted(trusted...)
	for _, text := range p.texts {
		path, err := store.ParsePath(text)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, store.CheckPaths(paths)
}
