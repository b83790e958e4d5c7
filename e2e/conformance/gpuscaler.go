package main

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
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	deployment "github.com/gpuscaler/gpuscaler/e2e/workload"
)

// lease is gpuscaler's lease duration. The default of 15 s would only prolong the runs.
const lease = 8 * time.Second

// scaleDownSeconds is the stabilization window of scale-downs. It is the same for gpuscaler's policies, KEDA's HPAs and the HPAs of other
// adapters.
const scaleDownSeconds = 5

// gpuscaler runs gpuscaler as the target, with two replicas as in the chart's defaults.
type gpuscaler struct {
	*controller.Controller
	lab  *lab
	cert string // directory of the serving certificate

	mu   sync.Mutex
	apis map[string]*faults.TCP // proxies of the connections to the API server, by pod
}

func (*gpuscaler) name() string { return gpuscalerName }

func (*gpuscaler) metric(w workload) (metric, bool) {
	return metric{"gpuscaler-desired-replicas", "gpuscaler.io/policy=" + w.name, float64(w.replicas())}, true
}

func (g *gpuscaler) start(ctx context.Context, l *lab) error {
	g.lab, g.apis, g.cert = l, map[string]*faults.TCP{}, filepath.Join(l.stack.Dir, "certificates", "gpuscaler")
	if err := errors.Join(os.MkdirAll(g.cert, 0o755), os.WriteFile(filepath.Join(g.cert, "ca.crt"), l.stack.CA.PEM, 0o600),
		g.certify(time.Time{})); err != nil {
		return err
	}
	var err error
	if g.Controller, err = controller.Up(ctx, l.stack, controller.Options{
		Replicas: 2, LeaseDuration: lease, Kubeconfig: func(pod, path string) (string, error) { return g.route(ctx, pod, path) },
		Through: func(address string) (string, error) {
			l.path, err = l.proxy(ctx, address)
			if err != nil {
				return "", err
			}
			return l.path.Address, nil
		},
		Args: []string{"--tls-cert-file=" + g.cert + "/tls.crt", "--tls-private-key-file=" + g.cert + "/tls.key",
			"--tls-ca-file=" + g.cert + "/ca.crt"},
	}); err != nil {
		return err
	}
	l.parts = g.parts()
	if err := g.write("", ""); err != nil {
		return err
	}
	for _, w := range workloads {
		if err := l.stack.Client.Create(ctx, deployment.HPA(namespace, w.name, 32)); err != nil {
			return err
		}
	}
	return nil
}

// certify issues the serving certificate.
func (g *gpuscaler) certify(notAfter time.Time) error {
	return g.lab.certify(g.cert, stack.Identity{User: "gpuscaler", DNS: []string{controller.Name + "." + controller.Namespace + ".svc"},
		NotAfter: notAfter})
}

// certify replaces tls.crt and then tls.key in a directory. For a moment they do not match, as when cert-manager and the kubelet replace
// them.
func (l *lab) certify(dir string, id stack.Identity) error {
	next := filepath.Join(dir, "next")
	if _, _, err := l.stack.CA.IssueFiles(id, next); err != nil {
		return err
	}
	return errors.Join(os.Rename(next+".crt", filepath.Join(dir, "tls.crt")), os.Rename(next+".key", filepath.Join(dir, "tls.key")))
}

// write writes the PlatformConfig and the policies, each with the given additional text. A reading is stale after 6 s.
func (g *gpuscaler) write(toPlatform, toPolicies string) error {
	platform := fmt.Sprintf(`
dataSources:
- {name: prom, type: prometheus, default: true, address: %q, interval: 2s}
- {name: redis, type: redis, address: %q, interval: 2s}
queries:
- {name: waiting, source: prom, query: "sum by (namespace, app) (%s)", workloadLabel: app}
`, g.lab.sourceURL(), g.lab.redis.Address, series)
	signals := map[origin]string{
		gateway: "type: prometheus, queryRef: waiting",
		servers: "type: vllm, metric: requestsWaiting",
		list:    "type: redis, source: redis, listName: ",
	}
	var policies []string
	for _, w := range workloads {
		signal := signals[w.origin]
		if w.origin == list {
			signal += w.name
		}
		policies = append(policies, controller.Policy(namespace, w.name, fmt.Sprintf(`
maxReplicas: 12
signals:
- {name: load, %s, target: %d, maxAge: 6s}
behavior:
  scaleUp: {tolerance: 0}
  scaleDown: {tolerance: 0, stabilizationWindowSeconds: %d}
%s`, signal, perReplica, scaleDownSeconds, toPolicies)))
	}
	return errors.Join(g.Policies.Put("platform", controller.Platform(platform+toPlatform)),
		g.Policies.Put("policies", strings.Join(policies, "---\n")))
}

// route returns a kubeconfig with which a pod reaches the API server through its own proxy.
func (g *gpuscaler) route(ctx context.Context, pod, path string) (string, error) {
	p, file, err := g.lab.routed(ctx, path, path+"-"+pod)
	if err != nil {
		return "", err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.apis[pod] = p
	return file, nil
}

// routed starts a proxy in front of the API server. It copies a kubeconfig and replaces the API server's address in the copy by the address
// of the proxy.
func (l *lab) routed(ctx context.Context, from, to string) (*faults.TCP, string, error) {
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return nil, "", err
	}
	var p *faults.TCP
	for _, cluster := range config.Clusters {
		if p, err = faults.NewTCP(ctx, "127.0.0.1:0", strings.TrimPrefix(cluster.Server, "https://")); err != nil {
			return nil, "", err
		}
		cluster.Server = "https://" + p.Address
	}
	return p, to, clientcmd.WriteToFile(*config, to)
}

func (g *gpuscaler) parts() parts {
	return parts{
		serving: func(ctx context.Context) (*stack.Process, error) { return g.process(ctx, true) },
		standby: func(ctx context.Context) (*stack.Process, error) { return g.process(ctx, false) },
		all:     g.processes,
		drain: func(ctx context.Context) error {
			pod, err := g.Leader(ctx)
			if err != nil {
				return err
			}
			return g.lab.stack.Client.Delete(ctx, pod)
		},
		lose: func(ctx context.Context) error {
			pod, err := g.Leader(ctx)
			if err != nil {
				return err
			}
			if p := g.Kubelet.Process(pod.Namespace, pod.Name); p != nil {
				p.Kill()
			}
			return g.lab.stack.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))
		},
		rollout: func(ctx context.Context) error {
			patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"restarted":%q}}}}}`, time.Now())
			return g.lab.stack.Client.Patch(ctx, g.Deployment(), client.RawPatch(types.MergePatchType, []byte(patch)))
		},
		api: func(ctx context.Context) (*faults.TCP, error) {
			pod, err := g.Leader(ctx)
			if err != nil {
				return nil, err
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.apis[pod.Name], nil
		},
		everyAPI: func() (every []*faults.TCP) {
			g.mu.Lock()
			defer g.mu.Unlock()
			for _, p := range g.apis {
				every = append(every, p)
			}
			return every
		},
		certificate: g.certify,
		useKarpenter: func() error {
			return g.write("capacityGroups:\n- {name: gpus, resource: nvidia.com/gpu, nodePools: {spot: gpu-spot, on-demand: gpu-on-demand}}\n",
				"capacityGroup: gpus\n")
		},
		permissions: []client.Object{named(&rbacv1.ClusterRoleBinding{}, "", "gpuscaler:"+controller.Name)},
		registers:   true,
		logs:        []string{g.Logs()},
	}
}

func named[T client.Object](o T, namespace, name string) T {
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// process returns the process of the leader if leads is true, and otherwise the process of a standby.
func (g *gpuscaler) process(ctx context.Context, leads bool) (*stack.Process, error) {
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

func (g *gpuscaler) processes(ctx context.Context) (all []*stack.Process, err error) {
	pods, err := g.Pods(ctx)
	for i := range pods {
		if p := g.Kubelet.Process(controller.Namespace, pods[i].Name); p != nil {
			all = append(all, p)
		}
	}
	return all, err
}
