package adapters

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/lab"
	"github.com/gpuscaler/gpuscaler/e2e/conformance/record"
	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	deployment "github.com/gpuscaler/gpuscaler/e2e/workload"
)

// lease is gpuscaler's lease duration. It is shorter than the default of 15 s, to shorten the runs.
const lease = 8 * time.Second

// scaleDownSeconds is the stabilization window for scale-downs, which is the same for all adapters.
const scaleDownSeconds = 5

// Gpuscaler is gpuscaler as the adapter under test, with two replicas as in the chart's defaults.
type Gpuscaler struct {
	*controller.Controller
	lab  *lab.Lab
	cert string // directory of the serving certificate

	mu   sync.Mutex
	apis map[string]*faults.TCP // proxies of the connections to the API server, by pod
}

// Name returns the target name "gpuscaler", which is also the value of the flag -target.
func (*Gpuscaler) Name() string { return record.Gpuscaler }

// Metric returns the metric of desired replicas that the HPA of a workload reads. gpuscaler serves all workloads.
func (*Gpuscaler) Metric(w lab.Workload) (lab.Metric, bool) {
	return lab.Metric{Name: "gpuscaler-desired-replicas", Selector: "gpuscaler.io/policy=" + w.Name, Correct: float64(w.Replicas())}, true
}

// Start installs gpuscaler with two replicas in the lab, writes its policies and creates an HPA for each workload.
func (g *Gpuscaler) Start(ctx context.Context, l *lab.Lab) error {
	g.lab, g.apis, g.cert = l, map[string]*faults.TCP{}, filepath.Join(l.Stack.Dir, "certificates", "gpuscaler")
	if err := errors.Join(os.MkdirAll(g.cert, 0o755), os.WriteFile(filepath.Join(g.cert, "ca.crt"), l.Stack.CA.PEM, 0o600),
		g.certify(time.Time{})); err != nil {
		return err
	}
	var err error
	if g.Controller, err = controller.Up(ctx, l.Stack, controller.Options{
		Replicas: 2, LeaseDuration: lease, Kubeconfig: func(pod, path string) (string, error) { return g.route(ctx, pod, path) },
		Through: func(address string) (string, error) {
			l.Path, err = l.Proxy(ctx, address)
			if err != nil {
				return "", err
			}
			return l.Path.Address, nil
		},
		Args: []string{"--tls-cert-file=" + g.cert + "/tls.crt", "--tls-private-key-file=" + g.cert + "/tls.key",
			"--tls-ca-file=" + g.cert + "/ca.crt"},
	}); err != nil {
		return err
	}
	l.Parts = g.parts()
	if err := g.write("", ""); err != nil {
		return err
	}
	for _, w := range lab.Workloads {
		if err := l.Stack.Client.Create(ctx, deployment.HPA(lab.Namespace, w.Name, 32)); err != nil {
			return err
		}
	}
	return nil
}

// certify replaces gpuscaler's serving certificate. notAfter is its expiry; zero: a time long after the run.
func (g *Gpuscaler) certify(notAfter time.Time) error {
	return g.lab.Certify(g.cert, stack.Identity{User: "gpuscaler", DNS: []string{controller.Name + "." + controller.Namespace + ".svc"},
		NotAfter: notAfter})
}

// write writes the PlatformConfig and the policies. It appends toPlatform to the PlatformConfig and toPolicies to each policy.
func (g *Gpuscaler) write(toPlatform, toPolicies string) error {
	platform := fmt.Sprintf(`
dataSources:
- {name: prom, type: prometheus, default: true, address: %q, interval: 2s}
- {name: redis, type: redis, address: %q, interval: 2s}
queries:
- {name: waiting, source: prom, query: "sum by (namespace, app) (%s)", workloadLabel: app}
`, g.lab.SourceURL(), g.lab.Redis.Address, lab.Series)
	signals := map[lab.Origin]string{
		lab.Gateway: "type: prometheus, queryRef: waiting",
		lab.Servers: "type: vllm, metric: requestsWaiting",
		lab.List:    "type: redis, source: redis, listName: ",
	}
	var policies []string
	for _, w := range lab.Workloads {
		signal := signals[w.Origin]
		if w.Origin == lab.List {
			signal += w.Name
		}
		policies = append(policies, controller.Policy(lab.Namespace, w.Name, fmt.Sprintf(`
maxReplicas: 12
signals:
- {name: load, %s, target: %d, maxAge: 6s}
behavior:
  scaleUp: {tolerance: 0}
  scaleDown: {tolerance: 0, stabilizationWindowSeconds: %d}
%s`, signal, lab.PerReplica, scaleDownSeconds, toPolicies)))
	}
	return errors.Join(g.Policies.Put("platform", controller.Platform(platform+toPlatform)),
		g.Policies.Put("policies", strings.Join(policies, "---\n")))
}

// route starts a proxy in front of the API server for one pod, and returns the path of a kubeconfig with the proxy's address.
func (g *Gpuscaler) route(ctx context.Context, pod, path string) (string, error) {
	p, file, err := g.lab.Routed(ctx, path, path+"-"+pod)
	if err != nil {
		return "", err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.apis[pod] = p
	return file, nil
}

func (g *Gpuscaler) parts() lab.Parts {
	return lab.Parts{
		Serving: func(ctx context.Context) (*stack.Process, error) { return g.process(ctx, true) },
		Standby: func(ctx context.Context) (*stack.Process, error) { return g.process(ctx, false) },
		All:     g.processes,
		Drain: func(ctx context.Context) error {
			pod, err := g.Leader(ctx)
			if err != nil {
				return err
			}
			return g.lab.Stack.Client.Delete(ctx, pod)
		},
		Lose: func(ctx context.Context) error {
			pod, err := g.Leader(ctx)
			if err != nil {
				return err
			}
			if p := g.Kubelet.Process(pod.Namespace, pod.Name); p != nil {
				p.Kill()
			}
			return g.lab.Stack.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))
		},
		Rollout: func(ctx context.Context) error {
			patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"restarted":%q}}}}}`, time.Now())
			return g.lab.Stack.Client.Patch(ctx, g.Deployment(), client.RawPatch(types.MergePatchType, []byte(patch)))
		},
		API: func(ctx context.Context) (*faults.TCP, error) {
			pod, err := g.Leader(ctx)
			if err != nil {
				return nil, err
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.apis[pod.Name], nil
		},
		EveryAPI: func() (every []*faults.TCP) {
			g.mu.Lock()
			defer g.mu.Unlock()
			for _, p := range g.apis {
				every = append(every, p)
			}
			return every
		},
		Certificate: g.certify,
		UseKarpenter: func() error {
			return g.write("capacityGroups:\n- {name: gpus, resource: nvidia.com/gpu, nodePools: {spot: gpu-spot, on-demand: gpu-on-demand}}\n",
				"capacityGroup: gpus\n")
		},
		Permissions: []client.Object{named(&rbacv1.ClusterRoleBinding{}, "", "gpuscaler:"+controller.Name)},
		Registers:   true,
		Logs:        []string{g.Logs()},
	}
}

func named[T client.Object](o T, namespace, name string) T {
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// process returns the process of the leader if leads is true, or the process of a standby if leads is false.
func (g *Gpuscaler) process(ctx context.Context, leads bool) (*stack.Process, error) {
	leader, err := g.Leader(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := g.Pods(ctx)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if (pods[i].Name == leader.Name) != leads {
			continue
		}
		if p := g.Kubelet.Process(controller.Namespace, pods[i].Name); p != nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no running pod of gpuscaler (leader: %t)", leads)
}

func (g *Gpuscaler) processes(ctx context.Context) (all []*stack.Process, err error) {
	pods, err := g.Pods(ctx)
	for i := range pods {
		if p := g.Kubelet.Process(controller.Namespace, pods[i].Name); p != nil {
			all = append(all, p)
		}
	}
	return all, err
}
