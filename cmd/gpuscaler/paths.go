package main

import (
	"github.com/spf13/pflag"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

// policyPaths is the flag --policies: paths from which policies of certain namespaces are accepted, and no PlatformConfig.
type policyPaths struct{ texts []string }

func (p *policyPaths) register(f *pflag.FlagSet) {
	f.StringArrayVar(&p.texts, "policies", nil, "NAMESPACE[,NAMESPACE...]=PATH: file or directory from which policies of those namespaces are accepted, and no PlatformConfig; *=PATH: of every namespace; may be given several times")
}

// with returns the paths of the flag behind paths from which every document is accepted.
func (p *policyPaths) with(trusted []string) ([]policy.Path, error) {
	paths := policy.Trusted(trusted...)
	for _, text := range p.texts {
		path, err := policy.ParsePath(text)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, policy.CheckPaths(paths)
}
