package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	external "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/judge"
	"github.com/gpuscaler/gpuscaler/e2e/conformance/lab"
)

const (
	readEvery   = time.Second
	readTimeout = 3 * time.Second
)

// watcher reads each metric from the adapter once a second and records the values. It also records every change of spec.replicas of the
// Deployments and of status.desiredReplicas of the HPAs.
type watcher struct {
	reader rest.Interface

	mu      sync.Mutex
	record  judge.Record
	current map[string]int32 // current number of replicas, by "WORKLOAD FIELD"
}

// watch starts the recording, which continues until ctx ends.
func watch(ctx context.Context, l *lab.Lab, t lab.Target) (*watcher, error) {
	reader, err := restClient(l, readTimeout)
	if err != nil {
		return nil, err
	}
	w := &watcher{reader: reader, current: map[string]int32{}}
	if err := w.followReplicas(ctx, l.Stack.Config); err != nil {
		return nil, err
	}
	for _, one := range lab.Workloads {
		if m, ok := t.Metric(one); ok {
			go w.repeat(ctx, one.Name, func() (float64, error) { return w.read(ctx, m) }, &w.record.Reads)
		}
	}
	go w.repeat(ctx, "", func() (float64, error) {
		_, err := reader.Get().AbsPath("/api/v1/namespaces/" + lab.Namespace).DoRaw(ctx)
		return 0, err
	}, &w.record.Control)
	return w, nil
}

// restClient returns a client of the administrator with a time limit for each request.
func restClient(l *lab.Lab, timeout time.Duration) (rest.Interface, error) {
	config := rest.CopyConfig(l.Stack.Config)
	config.Timeout = timeout
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return c.RESTClient(), nil
}

// repeat calls get once a second until ctx ends, and appends each value to the list `to` as a read of the workload `name`.
func (w *watcher) repeat(ctx context.Context, name string, get func() (float64, error), to *[]judge.Read) {
	for ctx.Err() == nil {
		read := judge.Read{Began: time.Now(), Workload: name}
		value, err := get()
		read.Ended, read.Value = time.Now(), value
		if err != nil {
			read.Refused = err.Error()
		}
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		*to = append(*to, read)
		w.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(read.Began.Add(readEvery))):
		}
	}
}

// read reads an external metric through the API server, as the HPA controller does, and returns the sum of all items.
func (w *watcher) read(ctx context.Context, m lab.Metric) (sum float64, err error) {
	body, err := w.reader.Get().AbsPath("/apis/external.metrics.k8s.io/v1beta1/namespaces/"+lab.Namespace+"/"+m.Name).
		Param("labelSelector", m.Selector).DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	var answer external.ExternalMetricValueList
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, err
	}
	if len(answer.Items) == 0 {
		return 0, fmt.Errorf("no items")
	}
	for i := range answer.Items {
		sum += answer.Items[i].Value.AsApproximateFloat64()
	}
	return sum, nil
}

// followReplicas records the replicas of Deployments and HPAs with informers, which reconnect after an outage of the API server.
func (w *watcher) followReplicas(ctx context.Context, config *rest.Config) error {
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithNamespace(lab.Namespace))
	deployments := factory.Apps().V1().Deployments().Informer()
	hpas := factory.Autoscaling().V2().HorizontalPodAutoscalers().Informer()
	for _, informer := range []cache.SharedIndexInformer{deployments, hpas} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    w.observe,
			UpdateFunc: func(_, now any) { w.observe(now) },
		}); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return ctx.Err()
}

// observe records a change of the number of replicas of a Deployment or an HPA. The first observation of an object is not a change.
func (w *watcher) observe(object any) {
	c := judge.Change{At: time.Now()}
	switch o := object.(type) {
	case *appsv1.Deployment:
		c.Workload, c.Field, c.To = o.Name, judge.Replicas, *o.Spec.Replicas
	case *autoscalingv2.HorizontalPodAutoscaler:
		c.Workload, c.Field, c.To = o.Spec.ScaleTargetRef.Name, judge.Desired, o.Status.DesiredReplicas
	default:
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before, known := w.current[c.Workload+" "+c.Field]
	w.current[c.Workload+" "+c.Field] = c.To
	if known && before != c.To {
		c.From = before
		w.record.Changes = append(w.record.Changes, c)
	}
}

// forget deletes the recorded reads and changes of the previous run.
func (w *watcher) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record = judge.Record{}
}

func (w *watcher) snapshot() judge.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return judge.Record{Reads: slices.Clone(w.record.Reads), Changes: slices.Clone(w.record.Changes), Control: slices.Clone(w.record.Control)}
}

// has returns an error unless the workload and its HPA have the given number of replicas.
func (w *watcher) has(name string, replicas int32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, field := range []string{judge.Replicas, judge.Desired} {
		if n := w.current[name+" "+field]; n != replicas {
			return fmt.Errorf("%s of %s is %d, want %d", field, name, n, replicas)
		}
	}
	return nil
}
