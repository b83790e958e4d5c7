package inspect

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/installation"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/snapshot"
	"github.com/gpuscaler/gpuscaler/pkg/lint"
)

// checkOptions are the flags of `gpuscaler check`.
type checkOptions struct {
	kube       commandline.Kube
	prometheus commandline.Prometheus
	namespace  string
	output     string
	pre        bool
	timeout    time.Duration
}

func checkCommand() *cobra.Command {
	o := checkOptions{}
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the cluster before the installation, and an installed release",
		Long: `Check the cluster and, without --pre, the installed release. The command changes nothing in the cluster.

Before the installation it checks the version of the API server, the server that is registered for external metrics,
the metrics of the DCGM exporter in Prometheus, the nodes with GPUs, the versions of Karpenter and KEDA, and the
permissions of the user. After the installation it also checks the Deployment, the permissions of its ServiceAccount,
the Lease, the APIService, the policies, the targets, and the HPAs that read them.

Each line begins with a tick (✓), an exclamation mark for a warning (!) or a cross (✗). A warning or a cross has the
next step and a guide. The exit code is 1 if a line has a cross.`,
		Example: `  gpuscaler check --pre --prometheus http://127.0.0.1:9090    # before the installation
  gpuscaler check
  gpuscaler check -o json | jq -r '.after[] | select(.status != "ok") | .found'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout()) },
	}
	f := c.Flags()
	o.kube.Register(f)
	o.prometheus.Register(f)
	f.StringVarP(&o.namespace, "namespace", "n", "gpuscaler-system", "namespace of gpuscaler")
	f.BoolVar(&o.pre, "pre", false, "only the checks before the installation")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "maximum time of the whole command; a check that did not finish is a warning")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	return c
}

// checkRequestTimeout is the maximum time of one request to the API server.
const checkRequestTimeout = 10 * time.Second

// checkQPS is the maximum number of requests per second to the API server. With client-go's default of 5, the access reviews would take 10
// seconds.
const checkQPS = 50

func (o *checkOptions) run(ctx context.Context, out io.Writer) error {
	switch {
	case o.output != "text" && o.output != "json":
		return fmt.Errorf("-o %q: use text or json", o.output)
	case o.timeout <= 0:
		return fmt.Errorf("--timeout %s: use a duration above 0", o.timeout)
	}
	config, err := o.kube.ClientConfig()
	if err != nil {
		return err
	}
	config.UserAgent, config.Timeout = "gpuscaler/"+commandline.Version, min(checkRequestTimeout, o.timeout)
	config.QPS, config.Burst = checkQPS, checkQPS
	cluster, err := o.cluster(config)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	r := &checked{}
	before, found := cluster.Before(limited)
	r.Before = slices.Concat(before, o.gpuMetrics(limited, before))
	if !o.pre && found != nil {
		r.After = o.after(limited, cluster, found)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := r.write(out, o.output); err != nil {
		return err
	}
	if r.count(installation.Failed) > 0 {
		return commandline.ErrReported
	}
	return nil
}

func (o *checkOptions) cluster(config *rest.Config) (*installation.Cluster, error) {
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	namespace, _, err := o.kube.Loader().Namespace()
	if err != nil {
		return nil, err
	}
	return &installation.Cluster{Typed: typed, Objects: objects, Namespace: o.namespace, UserNamespace: namespace}, nil
}

// gpuMetrics checks the metrics of the DCGM exporter with the checks of `gpuscaler lint`. If no node offers a GPU, missing metrics are only
// a warning.
func (o *checkOptions) gpuMetrics(ctx context.Context, before []installation.Result) (results []installation.Result) {
	const check = installation.GPUMetrics
	if o.prometheus.Address == "" {
		return []installation.Result{installation.Warn(check, "the GPU metrics are not checked: no Prometheus server is given",
			"repeat the command with --prometheus http://127.0.0.1:9090 and a port-forward to your server")}
	}
	server, err := o.prometheus.Open()
	if err != nil {
		return []installation.Result{installation.Fail(check, err.Error(), "correct --prometheus or --http-config")}
	}
	about := "Prometheus at " + o.prometheus.Address
	found, err := lint.Prometheus(ctx, lint.Source{Server: server, Name: about, Matchers: o.prometheus.Matchers}, nil, time.Now())
	switch {
	case err != nil && ctx.Err() != nil:
		return []installation.Result{installation.Warn(check, "not checked: "+ctx.Err().Error(), "use a longer --timeout")}
	case err != nil:
		found = []lint.Finding{lint.Unreachable(about, err)}
	}
	for _, r := range before {
		if r.Check == installation.GPUNodes && r.Status != installation.OK {
			lint.Fresh(found)
		}
	}
	lint.Sort(found)
	for _, f := range found {
		status := installation.Failed
		switch f.Severity {
		case lint.Info: // only `gpuscaler report` reads these metrics
			continue
		case lint.Warning:
			status = installation.Warning
		}
		results = append(results, installation.Bad(check, status, f.About+": "+f.What, f.Fix))
	}
	if len(results) == 0 {
		results = append(results, installation.Good(check, "Prometheus at %s has GPU metrics with the names of pods", o.prometheus.Address))
	}
	return results
}

// after checks the installed release. It reads the policies, targets and autoscalers from the leader.
func (o *checkOptions) after(ctx context.Context, cluster *installation.Cluster, found *snapshot.Snapshot) []installation.Result {
	results, installed := cluster.After(ctx, found)
	if !installed {
		return results
	}
	f := leaderFlags{kubeconfig: o.kube.Kubeconfig, context: o.kube.Context, namespace: o.namespace}
	results = append(results, readByLeader(ctx, &f)...)
	all, err := (&explainOptions{leader: f}).ask(ctx, "")
	if err != nil {
		return append(results, installation.Bad(installation.Targets, installation.Failed, "the leader did not answer: "+oneLine(err),
			"check the lines above; "+installation.PermissionsNext))
	}
	return append(results, append(servedTargets(all), followed(all, found.InactiveHPAs())...)...)
}
