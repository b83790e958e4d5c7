package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/keda"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

const namespace = "bench"

// result is what one block measured.
type result struct {
	p50, p99         time.Duration // of an external-metric GET through the API server
	cpuPerThousand   time.Duration // over all processes, the HPAs' own reads counted too
	queriesPerMinute float64
	resident         int64         // bytes, of KEDA and gpuscaler together
	signal           time.Duration // from the change of a signal to spec.replicas, the median of three
	failed           error
}

func (r result) String() string {
	if r.failed != nil {
		return "did not finish: " + firstLine(r.failed)
	}
	return fmt.Sprintf("GET p50 %s p99 %s", r.p50.Round(100*time.Microsecond), r.p99.Round(100*time.Microsecond))
}

// bench is one block under way: a cluster of its own.
type bench struct {
	mode
	settings
	stack *stack.Stack
	keda  *keda.Keda
	ours  *controller.Controller
	loads []*exporter.Total
	// metric and selector of the ith policy's number, as its HPA reads it.
	metric func(i int) (name, selector string)
	reader rest.Interface
}

// block sets a mode up from nothing, measures it and takes everything down.
func block(ctx context.Context, m mode, s settings) (r result, err error) {
	k8s, err := stack.Up(ctx, stack.Options{HPASync: 15 * time.Second, ScrapeInterval: 5 * time.Second, Out: io.Discard})
	if err != nil {
		return r, err
	}
	defer k8s.Stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &bench{mode: m, settings: s, stack: k8s}
	if err := errors.Join(b.connect(), b.prepare(ctx)); err != nil {
		return r, err
	}
	if err := b.settle(ctx); err != nil {
		return r, err
	}
	before, err := b.used()
	if err != nil {
		return r, err
	}
	latencies, err := b.read(ctx)
	if err != nil {
		return r, err
	}
	after, err := b.used()
	if err != nil {
		return r, err
	}
	minutes := after.at.Sub(before.at).Minutes()
	reads := float64(len(latencies)) + float64(s.policies)*after.at.Sub(before.at).Seconds()/15 // and each HPA's own
	slices.Sort(latencies)
	r = result{
		p50: latencies[len(latencies)/2], p99: latencies[len(latencies)*99/100],
		cpuPerThousand:   time.Duration(float64(after.cpu-before.cpu) / reads * 1000),
		queriesPerMinute: (after.queries - before.queries) / minutes, resident: after.resident,
	}
	r.signal, err = b.signalToReplicas(ctx)
	return r, err
}

// prepare starts who answers, and creates the workloads.
func (b *bench) prepare(ctx context.Context) error {
	if err := b.stack.Nodes(ctx, "gpu", 1+b.policies/12, 32); err != nil {
		return err
	}
	if err := b.stack.Namespace(ctx, namespace); err != nil {
		return err
	}
	var workloads []*exporter.Workload
	for i := range b.policies {
		load := &exporter.Total{}
		load.Set(5)
		b.loads = append(b.loads, load)
		workloads = append(workloads, workload.Metrics(namespace, name(i), load))
	}
	if _, err := exporter.Run(ctx, b.stack, workloads...); err != nil {
		return err
	}
	var err error
	if b.mode.keda {
		if b.keda, err = keda.Start(ctx, b.stack); err != nil {
			return err
		}
	}
	address := ""
	if b.gpuscaler {
		o := controller.Options{Values: map[string]any{}}
		if b.mode.keda {
			o.Args = []string{controller.ScalerFlag()}
		}
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

// policiesOf writes the platform and the policies: the same signal, target and
// query as KEDA's triggers have.
func (b *bench) policiesOf() error {
	platform := fmt.Sprintf(`
dataSources:
- {name: prom, type: prometheus, default: true, address: "%s", interval: 15s}
queries:
- name: waiting
  source: prom
  query: sum by (namespace, app) (label_replace(vllm:num_requests_waiting, "app", "$1", "pod", "(w[0-9]+)-.*"))
  workloadLabel: app
`, b.stack.Prometheus.URL)
	if err := b.ours.Policies.Put("platform", controller.Platform(platform)); err != nil {
		return err
	}
	var all []string
	for i := range b.policies {
		all = append(all, controller.Policy(namespace, name(i), "\nmaxReplicas: 4\nsignals:\n- {name: waiting, type: prometheus, queryRef: waiting, target: 10}\nbehavior: {scaleUp: {tolerance: 0}, scaleDown: {tolerance: 0}}\n"))
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
	trigger := fmt.Sprintf(`{type: prometheus, name: waiting, metadata: {serverAddress: "%s", threshold: "10", query: 'sum(vllm:num_requests_waiting{namespace="%s",pod=~"%s-.*"})'}%s}`,
		b.stack.Prometheus.URL, namespace, name(i), map[bool]string{true: ", useCachedMetrics: true"}[b.trigger == "cached"])
	if b.trigger == "ours" {
		trigger = fmt.Sprintf(`{type: external-push, name: gpuscaler, metadata: {scalerAddress: "%s"}}`, address)
	}
	poll := 30
	if b.trigger == "cached" {
		poll = 15 // an HPA's own period: as fresh as it can be read
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
  advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleUp: {stabilizationWindowSeconds: 0, policies: [{type: Pods, value: 1000, periodSeconds: 15}]}}}}
  triggers:
  - %[4]s
`, name(i), namespace, poll, trigger)
}

// settle waits until every policy's number can be read.
func (b *bench) settle(ctx context.Context) error {
	return stack.Poll(ctx, b.limit, func(ctx context.Context) error {
		for i := range b.policies {
			if _, err := b.get(ctx, i); err != nil {
				return fmt.Errorf("%s: %w", name(i), err)
			}
		}
		return nil
	})
}

// read asks at a steady rate, round and round, and returns how long each answer took.
func (b *bench) read(ctx context.Context) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, b.measure)
	defer cancel()
	var mu sync.Mutex
	var took []time.Duration
	var failed error
	var asking sync.WaitGroup
	ticker := time.NewTicker(time.Second / time.Duration(b.rate))
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			asking.Wait()
			if len(took) < 100 && failed == nil {
				failed = fmt.Errorf("%d reads are too few for a p99", len(took))
			}
			return took, failed
		case <-ticker.C:
		}
		asking.Go(func() {
			d, err := b.get(context.WithoutCancel(ctx), i%b.policies)
			mu.Lock()
			defer mu.Unlock()
			if took = append(took, d); err != nil && failed == nil {
				failed = err
			}
		})
	}
}

// signalToReplicas raises three workloads' signals, one after the other at odd
// moments of the HPAs' period, and returns the median time to spec.replicas.
func (b *bench) signalToReplicas(ctx context.Context) (time.Duration, error) {
	var took []time.Duration
	for i := range min(3, b.policies) {
		began := time.Now()
		b.loads[i].Set(25)
		err := stack.Poll(ctx, 3*time.Minute, func(ctx context.Context) error {
			d := workload.Deployment(namespace, name(i), 0)
			if err := b.stack.Client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
				return err
			}
			if *d.Spec.Replicas != 3 {
				return fmt.Errorf("%s has %d replicas, not 3", d.Name, *d.Spec.Replicas)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
		time.Sleep(4 * time.Second)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
