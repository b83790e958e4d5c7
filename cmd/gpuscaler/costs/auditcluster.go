package costs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/audit"
	"github.com/gpuscaler/gpuscaler/pkg/audit/collect"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/migrate"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

const (
	auditPage    = 500    // maximum number of objects in one response of the API server
	auditObjects = 20_000 // maximum number of objects of one kind
)

// auditCluster contains the flags of `gpuscaler audit` for reading a cluster.
type auditCluster struct {
	prometheus commandline.Prometheus
	kube       commandline.Kube
	since      string
	step       time.Duration
	prices     string
	hourly     float64
	region     string
	cluster    string

	// problems contains messages of the servers for standard error. They can contain addresses and queries, so they are not in the snapshot.
	problems []string
}

func (o *auditCluster) register(f *pflag.FlagSet) {
	o.prometheus.Register(f)
	o.kube.Register(f)
	f.StringVar(&o.since, "since", "7d", "length of the period: 12h, 7d, 4w")
	f.DurationVar(&o.step, "step", 0, "resolution; 0: depends on the length of the period, 5m for a week")
	f.StringVar(&o.prices, "prices", "", "price book (kind PriceBook); empty: the built-in one")
	f.Float64Var(&o.hourly, "gpu-hourly", 0, "$ per hour of a GPU whose node has no price in the price book")
	f.StringVar(&o.region, "region", "", "region of nodes without a region label")
	f.StringVar(&o.cluster, "cluster", "", "name of the cluster in the report")
}

// read returns the snapshot for the audit. It reads the objects of the cluster and the metrics of the Prometheus server.
func (o *auditCluster) read(ctx context.Context, wait time.Duration, progress func(string, float64)) (*audit.Snapshot, error) {
	if !(o.hourly >= 0) || o.hourly > 1e5 {
		return nil, fmt.Errorf("--gpu-hourly %v: use $ per hour, at least 0", o.hourly)
	}
	read, err := o.options(time.Now(), wait) // may use the clock: the period ends at the time of the command
	if err != nil {
		return nil, err
	}
	server, err := o.prometheus.Open()
	if err != nil {
		return nil, err
	}
	if read.Book, err = commandline.OpenPriceBook(o.prices, &policy.Platform{}); err != nil {
		return nil, err
	}
	read.Progress = progress
	progress("reading the cluster", 0)
	workloads, gaps, err := o.workloads(ctx, &read)
	if err != nil {
		return nil, err
	}
	s, err := collect.Read(ctx, server, workloads, read)
	if err != nil {
		return nil, err
	}
	s.Missing = append(gaps, s.Missing...)
	if warnings := server.Warnings(); len(warnings) > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("The Prometheus server sent %d warnings, so its data can be incomplete. The command printed them "+
			"when it read the data.", len(warnings)))
		for _, w := range warnings {
			o.problems = append(o.problems, "the Prometheus server warns: "+w)
		}
	}
	return s, nil
}

// options returns the options of the audit with its period. The end of the period is rounded to the step, so that two runs within a step
// send the same queries.
func (o *auditCluster) options(now time.Time, wait time.Duration) (collect.Options, error) {
	since, err := model.ParseDuration(o.since)
	if err != nil || since <= 0 {
		return collect.Options{}, fmt.Errorf("--since %q: use a duration such as 12h, 7d or 4w", o.since)
	}
	step := o.step
	if step == 0 {
		step = stepFor(time.Duration(since))
	}
	if step < 15*time.Second || step%time.Second != 0 || time.Duration(since) < 2*step || time.Duration(since)/step > 20_000 {
		return collect.Options{}, fmt.Errorf("--step %s: use whole seconds, at least 15s, and 2 to 20000 steps in %s", step, o.since)
	}
	to := now.UTC().Truncate(step)
	return collect.Options{Cluster: o.cluster, From: to.Add(-time.Duration(since).Truncate(step)), To: to, Step: step, Wait: wait,
		Matchers: o.prometheus.Matchers, Region: o.region, Hourly: o.hourly}, nil
}

// workloads reads the autoscalers, Deployments and StatefulSets of the cluster. It returns the workloads to audit, and one audit.Gap for
// each kind of missing data. It sets read.Nodes to the instance types of the current nodes.
func (o *auditCluster) workloads(ctx context.Context, read *collect.Options) ([]audit.Workload, []audit.Gap, error) {
	rest, err := o.kube.ClientConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("cluster: %w; use --kubeconfig, --sample or --offline FILE", err)
	}
	client, err := dynamic.NewForConfig(rest)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var autoscalers []*unstructured.Unstructured
	for _, r := range migrate.Importable {
		list, err := listAll(ctx, client, r)
		if err != nil {
			return nil, nil, err
		}
		for _, u := range list {
			if !migrate.MadeByKEDA(u) {
				autoscalers = append(autoscalers, u)
			}
		}
	}
	var targets []*unstructured.Unstructured
	for _, name := range []string{"deployments", "statefulsets"} {
		list, err := listAll(ctx, client, schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: name})
		if err != nil {
			return nil, nil, err
		}
		targets = append(targets, list...)
	}
	workloads, gaps := collect.Workloads(autoscalers, targets)
	if read.Nodes, err = karpenter.Offers(ctx, client); err != nil {
		read.Nodes = map[string]cost.Offer{}
		o.problems = append(o.problems, err.Error())
		gaps = append(gaps, audit.Gap{What: "instance types of present nodes",
			Why:  "the API server refused to list nodes or nodeclaims: " + cmp.Or(string(apierrors.ReasonForError(err)), "no answer"),
			Next: "allow to list nodes and nodeclaims"})
	}
	return workloads, gaps, nil
}

// listAll returns the objects of a kind in all namespaces. It reads them in pages. If the cluster does not serve the kind, the result is
// empty.
func listAll(ctx context.Context, c dynamic.Interface, r schema.GroupVersionResource) (all []*unstructured.Unstructured, err error) {
	options := metav1.ListOptions{Limit: auditPage}
	for {
		list, err := c.Resource(r).List(ctx, options)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", r.Resource, err)
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
		if len(all) > auditObjects {
			return nil, errors.New("list " + r.Resource + ": more than 20000 objects")
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return all, nil
		}
	}
}
