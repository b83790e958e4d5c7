package policies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/snapshot"
	"github.com/gpuscaler/gpuscaler/pkg/lint"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/history"
)

// lintOptions are the flags of `gpuscaler lint`.
type lintOptions struct {
	prometheus commandline.Prometheus
	kube       commandline.Kube
	offline    bool
	sources    bool
	fresh      bool
	output     string
	config     []string
	policies   commandline.PolicyPaths
	objects    []string
}

func lintCommand() *cobra.Command {
	o := lintOptions{}
	c := &cobra.Command{
		Use:   "lint [PATH...]",
		Short: "Check policies, metrics, HPAs, NodePools and versions in the cluster and in Prometheus",
		Long: `Check policies (files and directories at PATH) against the cluster and the Prometheus server that they use.
The command reports:
  - a metric that does not exist, was renamed, is absent at zero replicas, is a counter that is read as a gauge, or has
    labels that do not name pods; and GPU_UTIL, if it is the only signal
  - a workload that two autoscalers scale, or whose rollout would wait for a GPU
  - an HPA or a ScaledObject, also of another team, whose fields change the target
  - a NodePool that cannot scale to zero or has no fallback
  - a capacity group of labeled nodes, if the nodes do not suffice

Without policies the command checks the server that is registered for external metrics, the versions of Kubernetes,
KEDA and Karpenter, and whether the labels of the DCGM exporter name pods.

Policies in annotations and in ConfigMaps of teams are checked too, if the PlatformConfig is at PATH.

The cluster is the one of the kubeconfig. --prometheus adds a server, --offline skips the cluster, and
--objects FILE replaces the objects of the cluster by the objects in a file.
Every finding says what is wrong, what it causes and how to fix it. The exit code is 1 if a finding is an error.`,
		Example: `  gpuscaler lint --prometheus http://127.0.0.1:9090
  gpuscaler lint policies/ platform.yaml --prometheus http://127.0.0.1:9090
  gpuscaler lint policies/ platform.yaml --offline --objects hpas.yaml
  gpuscaler lint policies/ --offline --prometheus https://prom.example -o json | jq -r '.findings[] | .check'`,
		RunE: func(c *cobra.Command, paths []string) error {
			return o.run(c.Context(), append(paths, o.config...), c.OutOrStdout())
		},
	}
	f := c.Flags()
	o.prometheus.Register(f)
	o.kube.Register(f)
	commandline.Config(f, &o.config, ", like the argument PATH")
	o.policies.Register(f)
	f.BoolVar(&o.sources, "sources", false, "query the Prometheus server that the PlatformConfig at PATH declares, with its credentials; "+
		"use it where its address is reachable, such as in the cluster")
	f.BoolVar(&o.fresh, "fresh", false, "after an installation: report a metric without series as a warning instead of an error")
	f.BoolVar(&o.offline, "offline", false, "do not read the cluster, only the files and, if it is set, --prometheus")
	f.StringArrayVar(&o.objects, "objects", nil, "file with HPAs, ScaledObjects, NodePools and ConfigMaps from kubectl get -o yaml; "+
		"with --offline they are checked instead of the cluster's")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	return c
}

// linted is the result of `gpuscaler lint`: facts, which are always printed, and findings.
type linted struct {
	Facts    []fact         `json:"facts"`
	Findings []lint.Finding `json:"findings"`

	templates podTemplates // the pod templates that lint could read
}

// fact is one result that is always printed, for example the version of Kubernetes.
type fact struct {
	What  string `json:"what"`
	Value string `json:"value"`
}

func (o *lintOptions) run(ctx context.Context, names []string, out io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	l, err := o.collect(ctx, names)
	if err != nil {
		return err
	}
	if o.fresh {
		lint.Fresh(l.Findings)
	}
	lint.Sort(l.Findings)
	if err := l.write(out, o.output); err != nil {
		return err
	}
	if lint.Errors(l.Findings) > 0 {
		return commandline.ErrReported
	}
	return nil
}

// validate returns an error for flags that contradict each other.
func (o *lintOptions) validate() error {
	switch {
	case o.output != "text" && o.output != "json":
		return fmt.Errorf("-o %q: use text or json", o.output)
	case !o.offline && len(o.objects) > 0:
		return errors.New("--objects needs --offline: without it the objects of the cluster are checked")
	case o.offline && o.prometheus.Address == "" && !o.sources && len(o.objects) == 0:
		return errors.New("--offline needs --prometheus or --objects: otherwise there is nothing to check policies against; to check only " +
			"files use `gpuscaler validate`")
	case o.sources && o.prometheus.Address != "":
		return errors.New("--sources and --prometheus name two servers: use one of them")
	}
	return nil
}

// collect returns the findings about the policies at the named paths, about the cluster or the objects in files, and about the Prometheus
// server.
func (o *lintOptions) collect(ctx context.Context, names []string) (*linted, error) {
	paths, err := o.policies.With(names)
	if err != nil {
		return nil, err
	}
	l, store := &linted{}, store.New(store.Options{})
	known := len(paths) > 0
	if known {
		problems := store.LoadPaths(paths...).Problems
		l.policies(problems, "run `gpuscaler validate` and fix all problems")
		// If a policy is refused, the store does not contain all policies. A reference to the refused policy must then not be reported as
		// missing.
		known = policy.Errors(problems) == 0
	}
	var triggers []snapshot.TriggerQueries
	switch {
	case !o.offline:
		found, objects, err := o.snapshot(ctx)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(store.Groups(), (*capacity.Group).SelectsNodes) {
			found.ReadNodes(ctx, objects)
		}
		// If the ConfigMaps of a team cannot be read, the store does not contain all policies.
		known = known && found.ReadConfigMaps(ctx, objects, ofTeams(store.Platform()))
		l.cluster(found, store, known)
		l.templates = readTemplates(ctx, objects, store)
		l.teams(store, l.templates)
		found.ReadOverlays(ctx, objects)
		l.nodes(found, store, l.templates)
		triggers = found.Queries()
	case len(o.objects) > 0:
		if err := l.files(o.objects, store, known); err != nil {
			return nil, err
		}
	default:
		l.teams(store, nil)
	}
	server, err := o.ask(store.Platform())
	if err != nil {
		return nil, err
	}
	if server.Server == nil {
		l.fact("Prometheus", server.why)
		return l, nil
	}
	of := l.templates.subjects(store)
	l.unchecked(of)
	return l, l.server(ctx, server, slices.Concat(of, lint.Queries(store.Platform()), subjects(triggers)))
}

func (l *linted) fact(what, value string) { l.Facts = append(l.Facts, fact{what, value}) }

// policies adds a finding for each problem for which the controller refuses a policy. The store does not contain refused policies, so no
// other check reports these problems. fix is the advice for the user, such as "correct the annotations of the object".
func (l *linted) policies(problems []policy.Problem, fix string) {
	for _, p := range problems {
		about := p.File
		if p.Line > 0 {
			about = fmt.Sprintf("%s:%d", p.File, p.Line)
		}
		p.File = "" // the finding's text begins with the name of the file, which must not be repeated
		f := lint.Finding{Severity: lint.Error, Check: "PolicyRefused", About: about, What: p.String(),
			Why: "the controller refuses the document, and the other checks do not see it", Fix: fix}
		if p.Warning {
			f.Severity, f.Check, f.Why, f.Fix = lint.Warning, "PolicyOdd", "it works, but probably not as intended", p.Allowed
		}
		l.Findings = append(l.Findings, f)
	}
}

func (o *lintOptions) snapshot(ctx context.Context) (*snapshot.Snapshot, dynamic.Interface, error) {
	const next = "use --kubeconfig, or --offline with --prometheus to skip the cluster; to check only files use `gpuscaler validate`"
	config, err := o.kube.ClientConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("%w\n%s", err, next)
	}
	config.UserAgent, config.Timeout = "gpuscaler/"+commandline.Version, commandline.ConnectTimeout
	config.QPS, config.Burst = 50, 100 // with client-go's 5 requests per second, the pod templates of 500 policies would take 100 s
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	found, err := snapshot.Read(ctx, objects, typed.Discovery())
	if err != nil {
		return nil, nil, fmt.Errorf("%w\n%s", err, next)
	}
	return found, objects, nil
}

func orNone(version string) string {
	if version == "" {
		return "not found"
	}
	return version
}

// subjects converts the queries of ScaledObjects' triggers to the input of the checks.
func subjects(all []snapshot.TriggerQueries) (out []lint.Subject) {
	for _, t := range all {
		s := lint.Subject{About: t.Object, Namespace: t.Namespace, MinReplicas: t.MinReplicas}
		for _, name := range slices.Sorted(maps.Keys(t.Queries)) {
			s.Signals = append(s.Signals, lint.Signal{Name: "trigger " + name, Query: t.Queries[name]})
		}
		if t.Others {
			s.Signals = append(s.Signals, lint.Signal{Name: "others", Wakes: true})
		}
		out = append(out, s)
	}
	return out
}

// asked contains the Prometheus server that lint queries. If lint queries no server, why contains the reason.
type asked struct {
	*history.Server
	address  string
	matchers map[string]string
	why      string
}

// ask returns the Prometheus server of the flag --prometheus. With --sources, it returns the Prometheus server of the PlatformConfig.
func (o *lintOptions) ask(platform *policy.Platform) (a asked, err error) {
	if !o.sources {
		if o.prometheus.Address == "" {
			return asked{why: "not checked: --prometheus URL checks metrics and labels"}, nil
		}
		a = asked{address: o.prometheus.Address, matchers: o.prometheus.Matchers}
		a.Server, err = o.prometheus.Open()
		return a, err
	}
	source := platform.Prometheus()
	if source == nil {
		return asked{why: "not checked: the PlatformConfig declares none, or several without a default"}, nil
	}
	a = asked{address: source.Address, matchers: source.Matchers}
	a.Server, err = telemetry.OpenHistory(source)
	return a, err
}

// server adds the findings about the Prometheus server and about the queries to it.
func (l *linted) server(ctx context.Context, a asked, of []lint.Subject) error {
	about := "Prometheus at " + a.address
	found, err := lint.Prometheus(ctx, lint.Source{Server: a.Server, Name: about, Matchers: a.matchers}, of, time.Now())
	if err != nil {
		l.Findings = append(l.Findings, lint.Unreachable(about, err))
		return ctx.Err()
	}
	// Some servers, for example Thanos, do not report a version.
	if v, err := a.Version(ctx); err == nil && v != "" {
		l.fact("Prometheus", v+" at "+a.address)
	} else {
		l.fact("Prometheus", "answers at "+a.address)
	}
	l.Findings = append(l.Findings, found...)
	return nil
}
