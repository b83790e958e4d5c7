package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// kubeFlags configure the connection to a cluster.
type kubeFlags struct{ kubeconfig, context string }

func (f *kubeFlags) register(s *pflag.FlagSet) {
	s.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	s.StringVar(&f.context, "context", "", "context of the kubeconfig; empty: the current one")
}

// clientConfig returns the connection to the cluster of the kubeconfig, or to the cluster of this pod.
func (f *kubeFlags) clientConfig() (*rest.Config, error) {
	loader := f.config()
	config, err := loader.ClientConfig()
	if err == nil {
		return config, nil
	}
	raw, rawErr := loader.RawConfig()
	switch {
	case rawErr != nil:
		return nil, fmt.Errorf("read the kubeconfig: %w", rawErr)
	case len(raw.Contexts) == 0:
		return nil, fmt.Errorf("no kubeconfig: %s has no context", f.source())
	case f.context != "" && raw.Contexts[f.context] == nil:
		return nil, fmt.Errorf("%s has no context %q; it has %s", f.source(), f.context,
			strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", "))
	case f.context == "" && raw.CurrentContext == "":
		return nil, fmt.Errorf("%s has no current context: use --context, or `kubectl config use-context`; it has %s", f.source(),
			strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", "))
	}
	return nil, fmt.Errorf("%s: %w", f.source(), err)
}

// source returns the names of the kubeconfig files, for messages.
func (f *kubeFlags) source() string {
	if f.kubeconfig != "" {
		return f.kubeconfig
	}
	return cmp.Or(os.Getenv(clientcmd.RecommendedConfigPathEnvVar), "~/.kube/config")
}

func (f *kubeFlags) config() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context})
}
