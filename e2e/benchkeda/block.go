package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/keda"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

const (
	namespace = "bench"
	// hpaSync is the sync period of the HPA controller. It is the default of Kubernetes.
	hpaSync = 15 * time.Second
	// scrape is the scrape interval of Prometheus, and the interval at which gpuscaler queries Prometheus. More frequent queries would
	// return the same data.
	scrape = 5 * time.Second
	// hpaWorkers and requestsPerSecond are above the defaults. With its defaults of 5 workers and 20 requests per second, the HPA
	// controller syncs each of 1,000 HPAs only once a minute, with each of the metrics servers. With its default of 20 requests per second,
	// KEDA's operator needs many minutes to set up 1,000 ScaledObjects.
	hpaWorkers, requestsPerSecond = 20, 200
)

// result contains the measurements of one block. A block is one run of the benchmark in a new cluster, with one way of serving the metrics
// (one mode).
type result struct {
	p50, p99         time.Duration // duration of a GET of an external metric through the API server
	reads, refused   int           // number of requests of the benchmark, and how many of them failed
	cpuPerThousand   time.Duration // CPU time of all processes per thousand reads, including the reads of HPAs
	queriesPerMinute float64
	resident         int64         // memory of KEDA and gpuscaler together, in bytes
	hpaEvery         time.Duration // measured interval between two syncs of an HPA
	signal           signal
	failed           error
}

func (r result) String() string {
	if r.failed != nil {
		return "did not finish: " + firstLine(r.failed)
	}
	return fmt.Sprintf("GET p50 %s p99 %s, signal to replicas %s", r.p50.Round(100*time.Microsecond), r.p99.Round(100*time.Microsecond),
		r.signal.total)
}

// bench is one running block (see result) with its cluster.
type bench struct {
	mode
	settings
	stack  *stack.Stack
	ours   *controller.Controller
	queues *queues
	// metric returns the metric name and the label selector that the HPA of policy i uses.
	metric func(i int) (name, selector string)
	reader rest.Interface
	// The method settled is called repeatedly until the cluster is ready. In these fields it stores what earlier calls have found: running is
	// true if all replicas and HPAs are ready, and answered is the number of targets that were read.
	running  bool
	answered int
}

// block sets up a mode in a new cluster, measures it and stops everything.
func block(ctx context.Context, m mode, s settings) (r result, err error) {
	limits := []string{fmt.Sprintf("--kube-api-qps=%d", requestsPerSecond), fmt.Sprintf("--kube-api-burst=%d", 2*requestsPerSecond)}
	k8s, err := stack.Up(ctx, stack.Options{
		HPASync: hpaSync, ScrapeInterval: scrape, Out: io.Discard, Scheduler: limits,
		ControllerManager: append(limits, fmt.Sprintf("--concurrent-horizontal-pod-autoscaler-syncs=%d", hpaWorkers)),
	})
	if err != nil {
		return r, err
	}
	defer k8s.Stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &bench{mode: m, settings: s, stack: k8s, queues: newQueues(s.policies)}
	if err := errors.Join(b.connect(), k8s.ServeMetrics(ctx, "gateway", b.queues)); err != nil {
		return r, err
	}
	if err := b.prepare(ctx); err != nil {
		return r, fmt.Errorf("prepare: %w", err)
	}
	if err := stack.Poll(ctx, b.limit, b.settled); err != nil {
		return r, fmt.Errorf("not settled after %s: %w", b.limit, err)
	}
	before, err := b.usage(ctx)
	if err != nil {
		return r, err
	}
	latencies, refused, err := b.read(ctx)
	if err != nil {
		return r, err
	}
	after, err := b.usage(ctx)
	if err != nil {
		return r, err
	}
	span, syncs := after.at.Sub(before.at), after.syncs-before.syncs
	slices.Sort(latencies)
	r = result{
		p50: latencies[len(latencies)/2], p99: latencies[len(latencies)*99/100], reads: len(latencies), refused: refused,
		cpuPerThousand:   time.Duration(float64(after.cpu-before.cpu) / (float64(len(latencies)) + syncs) * 1000),
		queriesPerMinute: (after.queries - before.queries) / span.Minutes(), resident: after.resident,
		hpaEvery: time.Duration(float64(span) * float64(s.policies) / max(syncs, 1)),
	}
	r.signal, err = b.raise(ctx)
	return r, err
}

// prepare starts the metrics servers of the mode and creates the workloads.
func (b *bench) prepare(ctx context.Context) error {
	if err := b.stack.Nodes(ctx, "gpu", 2+b.policies/50, 100); err != nil {
		return err
	}
	if err := b.stack.Namespace(ctx, namespace); err != nil {
		return err
	}
	if b.mode.keda {
		limits := []string{fmt.Sprintf("--kube-api-qps=%d", requestsPerSecond), fmt.Sprintf("--kube-api-burst=%d", 2*requestsPerSecond)}
		if _, err := keda.Start(ctx, b.stack, keda.Options{Flags: limits}); err != nil {
			return err
		}
	}
	address := ""
	if b.gpuscaler {
		o := controller.Options{Values: map[string]any{}}
		if b.mode.keda {
			o.Args = []string{controller.ScalerFlag()}
		}
		var err error
		if b.ours, err = controller.Up(ctx, b.stack, o); err != nil {
			return err
		}
		if err := b.policiesOf(); err != nil {
			return err
		}
		proxy, err := b.ours.Scaler(ctx)
		if err != nil {
			return err
		}
		address = proxy.Address
	}
	return b.createAll(ctx, address)
}

func name(i int) string { return fmt.Sprintf("w%04d", i) }

// policiesOf writes the PlatformConfig and the policies, which have the same signal and the same target value as KEDA's triggers. One query
// of gpuscaler returns the signals of all policies, while KEDA sends one query for each trigger.
func (b *bench) policiesOf() error {
	platform := fmt.Sprintf(`
dataSources:
- {name: prom, type: prometheus, default: true, address: "%s", interval: %s}
queries:
- {name: waiting, source: prom, query: "sum by (namespace, app) (gateway_waiting)", workloadLabel: app}
`, b.stack.Prometheus.URL, scrape)
	if err := b.ours.Policies.Put("platform", controller.Platform(platform)); err != nil {
		return err
	}
	var all []string
	for i := range b.policies {
		all = append(all, controller.Policy(namespace, name(i),
			"\nmaxReplicas: 4\nsignals:\n- {name: waiting, type: prometheus, queryRef: waiting, target: 10}\nbehavior: {scaleUp: {tolerance: "+
				"0}, scaleDown: {tolerance: 0}}\n"))
	}
	return b.ours.Policies.Put("bench", strings.Join(all, "---\n"))
}

func (b *bench) createAll(ctx context.Context, address string) error {
	var g errgroup.Group
	g.SetLimit(8)
	for i := range b.policies {
		g.Go(func() error {
			if err := b.stack.Client.Create(ctx, workload.Deployment(namespace, name(i), 1)); err != nil {
				return err
			}
			if !b.mode.keda {
				return b.stack.Client.Create(ctx, workload.HPA(namespace, name(i), 4))
			}
			return keda.Apply(ctx, b.stack.Client, b.scaledObject(i, address))
		})
	}
	b.metric = func(i int) (string, string) {
		switch b.trigger {
		case "ours":
			return "s0-gpuscaler-desired-replicas", "scaledobject.keda.sh/name=" + name(i)
		case "":
			return "gpuscaler-desired-replicas", "gpuscaler.io/policy=" + name(i)
		}
		return "s0-prometheus", "scaledobject.keda.sh/name=" + name(i)
	}
	return g.Wait()
}

func (b *bench) scaledObject(i int, address string) string {
	trigger := fmt.Sprintf(`{type: prometheus, name: waiting, metadata: {serverAddress: "%s", threshold: "10", query: `+
		`'sum(gateway_waiting{namespace="%s",app="%s"})'}%s}`,
		b.stack.Prometheus.URL, namespace, name(i), map[bool]string{true: ", useCachedMetrics: true"}[b.trigger == "cached"])
	if b.trigger == "ours" {
		trigger = fmt.Sprintf(`{type: external-push, name: gpuscaler, metadata: {scalerAddress: "%s"}}`, address)
	}
	poll := 30
	if b.trigger == "cached" {
		poll = 15 // seconds; equal to the sync period of HPAs, so that every read of an HPA returns a new value
	}
	return fmt.Sprintf(`
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  scaleTargetRef: {name: %[1]s}
  minReplicaCount: 1
  maxReplicaCount: 4
  pollingInterval: %[3]d
  advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleUp: {stabilizationWindowSeconds: 0, policies: [{type: Pods, value: `+
		`1000, periodSeconds: 15}]}}}}
  triggers:
  - %[4]s
`, name(i), namespace, poll, trigger)
}

// settled returns nil when every workload has its replica, every HPA has a first value, and every target can be read.
func (b *bench) settled(ctx context.Context) error {
	if !b.running {
		if err := b.runs(ctx); err != nil {
			time.Sleep(time.Second)
			return err
		}
		b.running = true
	}
	for ; b.answered < b.policies; b.answered++ {
		if _, _, err := b.get(ctx, b.answered); err != nil {
			return fmt.Errorf("%s: %w", name(b.answered), err)
		}
	}
	return nil
}

func (b *bench) runs(ctx context.Context) error {
	var deployments appsv1.DeploymentList
	var hpas autoscalingv2.HorizontalPodAutoscalerList
	if err := errors.Join(b.stack.Client.List(ctx, &deployments, client.InNamespace(namespace)),
		b.stack.Client.List(ctx, &hpas, client.InNamespace(namespace))); err != nil {
		return err
	}
	ready, looked := 0, 0
	for i := range deployments.Items {
		if deployments.Items[i].Status.ReadyReplicas == 1 {
			ready++
		}
	}
	for i := range hpas.Items {
		if hpas.Items[i].Status.DesiredReplicas == 1 {
			looked++
		}
	}
	if ready != b.policies || looked != b.policies {
		return fmt.Errorf("of %d workloads %d are ready, and %d HPAs have a value", b.policies, ready, looked)
	}
	return nil
}
