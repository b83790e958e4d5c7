package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/adapters"
	"github.com/gpuscaler/gpuscaler/e2e/conformance/lab"
	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/usage"
	deployment "github.com/gpuscaler/gpuscaler/e2e/workload"
)

const (
	// churnEvery is the interval at which the soak changes loads and a policy file, and replaces one temporary workload.
	churnEvery  = 5 * time.Second
	sampleEvery = 10 * time.Second
	// temporary is the number of temporary workloads that exist at the same time. Each is deleted after temporary * churnEvery.
	temporary = 6
)

// churn changes the loads, policies and workloads in the lab during a soak.
type churn struct {
	lab    *lab.Lab
	target *adapters.Gpuscaler
	random *rand.Rand
	loads  map[string]int
	next   int // number of the next temporary workload
}

// soak changes the load, the policies and the workloads of gpuscaler for the given time. It returns an error if the heap, the goroutines,
// the open files or the memory of a process of gpuscaler grows, or if the number of objects in the API server grows.
func soak(ctx context.Context, t lab.Target, span time.Duration) error {
	ours, ok := t.(*adapters.Gpuscaler)
	if !ok {
		return fmt.Errorf("-soak measures gpuscaler, not %s", t.Name())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// With the default of an hour, no Event would expire during the soak, and the number of objects would grow all the time.
	l, err := lab.New(ctx, "--event-ttl=2m")
	if err != nil {
		return err
	}
	defer l.Stack.Stop()
	if err := ours.Start(ctx, l); err != nil {
		return err
	}
	c := &churn{lab: l, target: ours, random: rand.New(rand.NewPCG(1, 1)), loads: map[string]int{}}
	samples := measured{}
	printProgress("soak of %s: each %s the loads, a policy file and a workload change", span, churnEvery)
	began, sampled := time.Now(), time.Time{}
	for time.Since(began) < span {
		if err := errors.Join(ctx.Err(), c.step(ctx)); err != nil {
			return err
		}
		if time.Since(sampled) >= sampleEvery {
			sampled = time.Now()
			// A missing sample is not an error, because the machine may be slow. The method flat requires a minimum number of samples.
			if err := c.sample(ctx, samples); err != nil {
				printProgress("no sample: %v", err)
			}
		}
		hold(ctx, churnEvery)
	}
	fmt.Print(samples)
	return samples.flat()
}

// step changes every load and one policy, and replaces the oldest temporary workload.
func (c *churn) step(ctx context.Context) error {
	for _, w := range lab.Workloads {
		if w.Origin == lab.Gateway {
			c.loads[w.Name] = c.random.IntN(100)
		}
	}
	name := fmt.Sprintf("temporary-%d", c.next)
	c.loads[name] = c.random.IntN(30)
	c.next++
	if old := c.next - 1 - temporary; old >= 0 {
		gone := fmt.Sprintf("temporary-%d", old)
		delete(c.loads, gone)
		if err := c.remove(ctx, gone); err != nil {
			return err
		}
	}
	loads := maps.Clone(c.loads)
	c.lab.Gateway.Loads.Store(&loads)
	if err := c.add(ctx, name); err != nil {
		return err
	}
	return c.target.Policies.Put("edited", controller.Policy(lab.Namespace, "edited", fmt.Sprintf(`
maxReplicas: %d
signals:
- {name: load, type: prometheus, queryRef: waiting, target: 10}
`, 4+c.next%5)))
}

func (c *churn) add(ctx context.Context, name string) error {
	policy := controller.Policy(lab.Namespace, name, `
maxReplicas: 4
signals:
- {name: load, type: prometheus, queryRef: waiting, target: 10, maxAge: 6s}
behavior:
  scaleDown: {stabilizationWindowSeconds: 5}
`)
	return errors.Join(c.write(ctx, func(ctx context.Context) error {
		return errors.Join(client.IgnoreAlreadyExists(c.lab.Stack.Client.Create(ctx, deployment.Deployment(lab.Namespace, name, 1))),
			client.IgnoreAlreadyExists(c.lab.Stack.Client.Create(ctx, deployment.HPA(lab.Namespace, name, 4))))
	}), c.target.Policies.Put(name, policy))
}

// write repeats a write for up to two minutes, until the API server accepts it.
func (c *churn) write(ctx context.Context, do func(context.Context) error) error {
	return stack.Poll(ctx, 2*time.Minute, do)
}

func (c *churn) remove(ctx context.Context, name string) error {
	return errors.Join(c.write(ctx, func(ctx context.Context) error {
		return errors.Join(client.IgnoreNotFound(c.lab.Stack.Client.Delete(ctx, deployment.HPA(lab.Namespace, name, 4))),
			client.IgnoreNotFound(c.lab.Stack.Client.Delete(ctx, deployment.Deployment(lab.Namespace, name, 1),
				client.PropagationPolicy("Background"))))
	}), c.target.Policies.Remove(name))
}

// sample measures the heap, goroutines, open files and memory of each process of gpuscaler, and counts the objects in the API server.
func (c *churn) sample(ctx context.Context, s measured) error {
	pods, err := c.target.Pods(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		p := c.target.Kubelet.Process(controller.Namespace, pods[i].Name)
		if p == nil {
			return fmt.Errorf("soak: %s does not run", pods[i].Name)
		}
		page := "http://" + pods[i].Status.PodIP + ":8080/metrics"
		for what, metric := range map[string]string{"heap": "go_memstats_heap_alloc_bytes ", "goroutines": "go_goroutines "} {
			n, err := usage.Sum(ctx, http.DefaultClient, page, metric, "")
			if err != nil {
				return err
			}
			s.add(what+" of "+pods[i].Name, n)
		}
		files, err := openFiles(p.Pid())
		if err != nil {
			return err
		}
		resident, err := usage.PSS(p.Pid())
		if err != nil {
			return err
		}
		s.add("open files of "+pods[i].Name, float64(files))
		s.add("memory of "+pods[i].Name, float64(resident))
	}
	return c.objects(ctx, s)
}
