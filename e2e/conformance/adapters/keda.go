package adapters

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/lab"
	"github.com/gpuscaler/gpuscaler/e2e/conformance/record"
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

// kedaTarget is KEDA as the adapter under test. As in the defaults of KEDA's chart, there is one process of the operator, one of the
// metrics adapter and one of the webhooks. Each process is restarted when it exits.
type kedaTarget struct {
	lab *lab.Lab
	*keda.Keda
	api *faults.TCP
}

func (*kedaTarget) Name() string { return record.KEDA }

func (*kedaTarget) Metric(w lab.Workload) (lab.Metric, bool) {
	name := "s0-prometheus"
	if w.Origin == lab.List {
		name = "s0-redis-" + w.Name
	}
	return lab.Metric{Name: name, Selector: "scaledobject.keda.sh/name=" + w.Name, Correct: float64(w.Waiting)}, true
}

func (k *kedaTarget) Start(ctx context.Context, l *lab.Lab) error {
	k.lab = l
	p, kubeconfig, err := l.Routed(ctx, l.Stack.Kubeconfig, filepath.Join(l.Stack.Dir, "kubeconfigs", "keda"))
	if err != nil {
		return err
	}
	k.api = p
	if k.Keda, err = keda.Start(ctx, l.Stack, keda.Options{Kubeconfig: kubeconfig}); err != nil {
		return err
	}
	service := types.NamespacedName{Namespace: keda.Namespace, Name: "keda-metrics-apiserver"}
	if err := l.Through(ctx, k.Address(), service, l.Stack.CA.PEM); err != nil {
		return err
	}
	go l.RefreshRegistration(ctx)
	for _, name := range []string{kedaOperator, kedaAdapter, kedaWebhooks} {
		go l.Supervise(ctx, name)
	}
	l.Parts = k.parts()
	for _, w := range lab.Workloads {
		if err := keda.Apply(ctx, l.Stack.Client, k.scaledObject(w)); err != nil {
			return err
		}
	}
	return nil
}

// scaledObject returns a ScaledObject with the same query and the same target value as gpuscaler's policy. KEDA's other settings have their
// defaults: KEDA polls every 30 s, and also queries the source for each read of the HPA.
func (k *kedaTarget) scaledObject(w lab.Workload) string {
	trigger := fmt.Sprintf(`{type: prometheus, metadata: {serverAddress: %q, threshold: "%d", query: '%s'}}`,
		k.lab.SourceURL(), lab.PerReplica, w.Query())
	if w.Origin == lab.List {
		trigger = fmt.Sprintf(`{type: redis, metadata: {address: %q, listName: %s, listLength: "%d"}}`,
			k.lab.Redis.Address, w.Name, lab.PerReplica)
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
`, w.Name, lab.Namespace, scaleDownSeconds, trigger)
}

func (k *kedaTarget) parts() lab.Parts {
	process := func(name string) func(context.Context) (*stack.Process, error) {
		return func(context.Context) (*stack.Process, error) { return k.lab.Stack.Process(name), nil }
	}
	all := func(context.Context) (every []*stack.Process, err error) {
		for _, name := range []string{kedaOperator, kedaAdapter, kedaWebhooks} {
			every = append(every, k.lab.Stack.Process(name))
		}
		return every, nil
	}
	return lab.Parts{
		Serving: process(kedaAdapter), Operator: process(kedaOperator), All: all,
		Drain: func(context.Context) error { return lab.Terminate(k.lab.Stack.Process(kedaAdapter)) },
		Lose:  func(context.Context) error { k.lab.Stack.Process(kedaAdapter).Kill(); return nil },
		Rollout: func(ctx context.Context) error {
			every, err := all(ctx)
			for _, p := range every {
				err = errors.Join(err, lab.Terminate(p))
			}
			return err
		},
		API:      func(context.Context) (*faults.TCP, error) { return k.api, nil },
		EveryAPI: func() []*faults.TCP { return []*faults.TCP{k.api} },
		Certificate: func(notAfter time.Time) error {
			return k.lab.Certify(k.Certificates(), stack.Identity{User: "keda", NotAfter: notAfter,
				DNS: []string{keda.OperatorName, "keda-metrics-apiserver.keda.svc", "keda-admission-webhooks.keda.svc"}})
		},
		Logs: []string{filepath.Join(k.lab.Stack.Dir, "logs", "keda-*.log")},
	}
}
