package commandline

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Kube contains the values of the flags --kubeconfig and --context, which select a cluster.
type Kube struct{ Kubeconfig, Context string }

// Register adds the flags --kubeconfig and --context to s.
func (f *Kube) Register(s *pflag.FlagSet) {
	s.StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	s.StringVar(&f.Context, "context", "", "context of the kubeconfig; empty: the current one")
}

// ClientConfig returns the connection to the cluster that the kubeconfig selects. In a pod without a kubeconfig, it returns the connection
// to the pod's own cluster.
func (f *Kube) ClientConfig() (*rest.Config, error) {
	loader := f.Loader()
	config, err := loader.ClientConfig()
	if err == nil {
		return config, nil
	}
	raw, rawErr := loader.RawConfig()
	switch {
	case rawErr != nil:
		return nil, fmt.Errorf("read the kubeconfig: %w", rawErr)
	case len(raw.Contexts) == 0 && !f.exists():
		return nil, fmt.Errorf("no kubeconfig: %s does not exist", f.source())
	case len(raw.Contexts) == 0:
		return nil, fmt.Errorf("no kubeconfig: %s has no context", f.source())
	case f.Context != "" && raw.Contexts[f.Context] == nil:
		return nil, fmt.Errorf("%s has no context %q; it has %s", f.source(), f.Context,
			strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", "))
	case f.Context == "" && raw.CurrentContext == "":
		return nil, fmt.Errorf("%s has no current context: use --context, or `kubectl config use-context`; it has %s", f.source(),
			strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", "))
	}
	return nil, fmt.Errorf("%s: %w", f.source(), err)
}

// source returns the names of the kubeconfig files, for error messages.
func (f *Kube) source() string {
	if f.Kubeconfig != "" {
		return f.Kubeconfig
	}
	return cmp.Or(os.Getenv(clientcmd.RecommendedConfigPathEnvVar), "~/.kube/config")
}

// exists reports whether there is a kubeconfig file at all.
func (f *Kube) exists() bool {
	return slices.ContainsFunc(f.rules().GetLoadingPrecedence(), func(name string) bool {
		_, err := os.Stat(name)
		return err == nil
	})
}

func (f *Kube) rules() *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.Kubeconfig
	return rules
}

// Loader returns the kubeconfig that the flags select. Unlike ClientConfig, it also gives access to the contexts and the namespace.
func (f *Kube) Loader() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(f.rules(), &clientcmd.ConfigOverrides{CurrentContext: f.Context})
}

// ConnectTimeout is the maximum time for connecting to the leader, which takes two requests to the API server and a protocol upgrade.
// Commands that only read objects of a cluster use the same timeout.
const ConnectTimeout = 15 * time.Second
