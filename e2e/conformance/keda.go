package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/keda"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// Names of KEDA's processes.
const (
	kedaOperator = "keda-operator-1"
	kedaAdapter  = "keda-adapter-1"
	kedaWebhooks = "keda-webhooks-1"
)

// kedaTarget runs KEDA as the target. As in the defaults of KEDA's chart, there are one operator, one metrics adapter and the webhooks.
// Each is restarted when it exits.
type kedaTarget struct {
	lab *lab
	*keda.Keda
	api *faults.TCP
}

func (*kedaTarget) name() string { return kedaName }

func (*kedaTarget) metric(w workload) (metric, bool) {
	name := "s0-prometheus"
	if w.origin == list {
		name = "s0-redis-" + w.name
	}
	return metric{name, "scaledobject.keda.sh/name=" + w.name, float64(w.waiting)}, true
}

func (k *kedaTarget) start(ctx context.Context, l *lab) error {
	k.lab = l
	p, kubeconfig, err := l.routed(ctx, l.stack.Kubeconfig, filepath.Join(l.stack.Dir, "kubeconfigs", "keda"))
	if err != nil {
		return err
	}
	k.api = p
	if k.Keda, err = keda.Start(ctx, l.stack, keda.Options{Kubeconfig: kubeconfig}); err != nil {
		return err
	}
	service := types.NamespacedName{Namespace: keda.Namespace, Name: "keda-metrics-apiserver"}
	if err := l.through(ctx, k.Address(), service, l.stack.CA.PEM); err != nil {
		return err
	}
	go l.refreshRegistration(ctx)
	for _, name := range []string{kedaOperator, kedaAdapter, kedaWebhooks} {
		go l.supervise(ctx, name)
	}
	l.parts = k.parts()
	for _, w := range workloads {
		if err := keda.Apply(ctx, l.stack.Client, k.scaledObject(w)); err != nil {
			return err
		}
	}
	return nil
}

// scaledObject returns a ScaledObject with the same query and the same target value as gpuscaler's policy. It keeps KEDA's defaults: a poll
// every 30 s, and a query for each read of an HPA.
func (k *kedaTarget) scaledObject(w workload) string {
	trigger := fmt.Sprintf(`{type: prometheus, metadata: {serverAddress: %q, threshold: "%d", query: '%s'}}`, k.lab.sourceURL(), perReplica,
		w.query())
	if w.origin == list {
		trigger = fmt.Sprintf(`{type: redis, metadata: {address: %q, listName: %s, listLength: "%d"}}`, k.lab.redis.Address, w.name, perReplica)
	}
	return fmt.Sprintf(`
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  scaleTargetRef: {name: %[1]s}
  minReplicaCount: 1
  maxReplicaCount: 12
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleUp: {stabilizationWindowSeconds: 0, policies: [{type: Pods, value: 1000, periodSeconds: 15}]}
        scaleDown: {stabilizationWindowSeconds: %[3]d, policies: [{type: Percent, value: 100, periodSeconds: 15}]}
  triggers:
  - %[4]s
`, w.name, namespace, scaleDownSeconds, trigger)
}

func (k *kedaTarget) parts() parts {
	process := func(name string) func(context.Context) (*stack.Process, error) {
		return func(context.Context) (*stack.Process, error) { return k.lab.stack.Process(name), nil }
	}
	all := func(context.Context) (every []*stack.Process, err error) {
		for _, name := range []string{kedaOperator, kedaAdapter, kedaWebhooks} {
			every = append(every, k.lab.stack.Process(name))
		}
		return every, nil
	}
	return parts{
		serving: process(kedaAdapter), operator: process(kedaOperator), all: all,
		drain: func(context.Context) error { return terminate(k.lab.stack.Process(kedaAdapter)) },
		lose:  func(context.Context) error { k.lab.stack.Process(kedaAdapter).Kill(); return nil },
		rollout: func(ctx context.Context) error {
			every, err := all(ctx)
			for _, p := range every {
				err = errors.Join(err, terminate(p))
			}
			return err
		},
		api:      func(context.Context) (*faults.TCP, error) { return k.api, nil },
		everyAPI: func() []*faults.TCP { return []*faults.TCP{k.api} },
		certificate: func(notAfter time.Time) error {
			return k.lab.certify(k.Certificates(), stack.Identity{User: "keda", NotAfter: notAfter,
				DNS: []string{keda.OperatorName, "keda-metrics-apiserver.keda.svc", "keda-admission-webhooks.keda.svc"}})
		},
		logs: []string{filepath.Join(k.lab.stack.Dir, "logs", "keda-*.log")},
	}
}

// terminationGrace is the time after which the kubelet kills a process that received SIGTERM.
const terminationGrace = 30 * time.Second

// terminate ends a process as a kubelet does. Its exit code does not matter.
func terminate(p *stack.Process) error {
	_ = p.Terminate(terminationGrace)
	return nil
}
