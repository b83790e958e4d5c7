package agreement

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodepoolwriter"
)

const (
	gpu     = "nvidia.com/gpu"
	release = "gpuscaler-system/gpuscaler"
)

// nodePools is the interface for the requests that a story sends for NodePools. The model and the real API server implement it.
type nodePools interface {
	Create(u *unstructured.Unstructured, manager string) error
	Get(name string) (*unstructured.Unstructured, error)
	Send(name string, r *apiserver.Request) (*unstructured.Unstructured, error)
	Delete(name string) error
	// Events returns all events of the NodePool with that name, from a watch that starts with the story.
	Events(name string) ([]string, error)
}

// poolStory is the state of a running story about one NodePool of a capacity group.
type poolStory struct {
	api      nodePools
	pool     string
	now      time.Time // the clock of the replicas; the story sets it, so that both sides write the same times
	group    *capacity.Group
	removed  bool // the group was removed from the policy files
	replicas [2]*replica
	read     *unstructured.Unstructured // the version of the NodePool that the owner has read
	uids     []types.UID                // UIDs of the NodePools with this name, in the order of their creation
	sent     int                        // number of requests that gpuscaler has sent in the current step
	before   map[int][]string           // steps that run just before a request of gpuscaler; key: value of sent for the request
	lines    []string
}

// replica is a process of gpuscaler. The product's own code makes the decisions and writes the NodePools.
type replica struct {
	name   string
	cached *karpenter.NodePool
	state  capacity.State
	orphan capacity.State
	writer *nodepoolwriter.Writer
	patch  *capacity.NodePoolPatch
	base   *karpenter.NodePool
}

// newPoolStory prepares a story about the NodePool with the given name.
func newPoolStory(api nodePools, pool string) (*poolStory, error) {
	p := &poolStory{api: api, pool: pool, now: time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC), before: map[int][]string{}}
	var err error
	p.group, err = capacity.NewGroup(capacity.Group{Name: "gpus", Resource: gpu, ZeroLimit: true,
		Pools: []capacity.Pool{{Name: pool, Type: capacity.OnDemand}}})
	if err != nil {
		return nil, err
	}
	for i := range p.replicas {
		r := &replica{name: fmt.Sprintf("replica-%d", i)}
		r.writer = nodepoolwriter.New(nodepoolwriter.Options{
			Client: poolClient{story: p, replica: r}, Release: release, Leading: func() bool { return true },
			OverriddenByOther: func(context.Context, *karpenter.NodePool) string { return "" },
			Current:           func(string) *karpenter.NodePool { return r.cached },
			Event:             func(corev1.ObjectReference, string, string, string) {},
			Writes:            nodepoolwriter.NewWritesMetric(), Log: slog.New(slog.DiscardHandler),
		})
		p.replicas[i] = r
	}
	return p, nil
}

// play runs the steps of the story. It returns one line for each request, with the answer.
func (p *poolStory) play(steps []string) (string, error) {
	for _, step := range steps {
		if err := p.step(step); err != nil {
			return "", fmt.Errorf("%s: %w", step, err)
		}
	}
	if len(p.before) > 0 {
		return "", fmt.Errorf("there was no such request: %v", p.before)
	}
	events, err := p.api.Events(p.pool)
	if err != nil {
		return "", err
	}
	end, err := p.end()
	return strings.Join(p.lines, "\n") + "\nwatch: " + strings.Join(events, ", ") + "\n" + end, err
}

// answered appends a line to p.lines: the sender, the request and the answer ("ok", or the reason of the error).
func (p *poolStory) answered(who, what string, err error) {
	answer := "ok"
	if err != nil {
		answer = string(apierrors.ReasonForError(err))
	}
	p.lines = append(p.lines, fmt.Sprintf("%s %s: %s", who, what, answer))
}

func (p *poolStory) step(step string) error {
	who, what, _ := strings.Cut(step, " ")
	switch who {
	case "owner", "gitops", "karpenter":
		return p.others(who, what)
	case "replica-0", "replica-1":
		return p.gpuscaler(p.replicas[who[len(who)-1]-'0'], what)
	case "before":
		number, rest, _ := strings.Cut(strings.TrimPrefix(what, "request "), ": ")
		n, err := strconv.Atoi(number)
		p.before[n] = append(p.before[n], rest)
		return err
	}
	if step == "the group is removed" {
		p.removed = true
		return nil
	}
	return fmt.Errorf("unknown step")
}

const manifest = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s, annotations: {gpuscaler.io/nudge: limits}}
spec:
  weight: 10
  limits: {nvidia.com/gpu: "4", cpu: "100"}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m, budgets: [{nodes: "100%%"}]}
  template:
    spec:
      expireAfter: Never
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
`

func (p *poolStory) create() error {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, manifest, p.pool), &u.Object); err != nil {
		return err
	}
	p.answered("owner", "creates", p.api.Create(u, "kubectl-client-side-apply"))
	live, err := p.api.Get(p.pool)
	if err == nil && !slices.Contains(p.uids, live.GetUID()) {
		p.uids = append(p.uids, live.GetUID())
	}
	return err
}

// gpuscaler runs a step in which a replica decides, observes the NodePool, writes or restarts.
func (p *poolStory) gpuscaler(r *replica, what string) error {
	if rest, ok := arguments(what, "decides for"); ok {
		wait, demand := strings.CutSuffix(rest, " with a waiting pod")
		d, err := time.ParseDuration(wait)
		if err != nil {
			return err
		}
		p.decide(r, d, demand)
		return nil
	}
	switch what {
	case "observes":
		u, err := p.api.Get(p.pool)
		if apierrors.IsNotFound(err) {
			r.cached = nil
			return nil
		}
		r.cached = karpenter.DecodeNodePool(u)
		return err
	case "writes":
		if r.patch == nil {
			return fmt.Errorf("it has decided nothing")
		}
		p.sent = 0
		r.writer.Write(*r.patch, r.base)
		r.patch = nil
		return nil
	case "restarts":
		r.state, r.orphan, r.patch = capacity.State{}, capacity.State{}, nil
		return nil
	}
	return fmt.Errorf("unknown step")
}

// decide runs ticks until the decision has a patch, or until the given time has passed.
func (p *poolStory) decide(r *replica, wait time.Duration, demand bool) {
	end := p.now.Add(wait)
	for ; !p.now.After(end); p.now = p.now.Add(time.Second) {
		o := capacity.Observation{Pools: []capacity.PoolView{{}}}
		if r.cached != nil {
			o.Pools[0] = r.cached.View(p.group, nil, crd)
			// the UIDs of the model and of kube-apiserver differ, so the decision gets the index of the UID in p.uids instead
			o.Pools[0].UID = strconv.Itoa(1 + slices.Index(p.uids, r.cached.Object.GetUID()))
		}
		if demand {
			o.UnmanagedPods = []capacity.Pod{{UID: "pod", Namespace: "default", Name: "pod", GPUs: 1, Pool: -1, Node: -1, Pending: true,
				Since: p.now.Add(-time.Minute)}}
		}
		var d capacity.Decision
		if !p.removed {
			r.state.Decide(p.group, &o, p.now, &d)
		} else if r.cached != nil && r.cached.Ours {
			if group, known := capacity.Orphan(p.pool, r.cached.Record()); known {
				r.orphan.Release(group, &o, p.now, &d)
			}
		}
		for _, action := range d.Actions {
			patch := action.(capacity.NodePoolPatch)
			r.patch, r.base = &patch, r.cached
			p.lines = append(p.lines, fmt.Sprintf("%s decides: %s", r.name, strings.ReplaceAll(strings.TrimSpace(patch.Text()), p.pool, "POOL")))
			return
		}
	}
	p.lines = append(p.lines, r.name+" decides: nothing")
}

// crd is a schema of the NodePool CRD with all fields that gpuscaler can override.
var crd = karpenter.Schema{Known: true, Limits: true, Weight: true, ConsolidateAfter: true, ConsolidationPolicy: true, Budgets: true}

// request sends a request of the product's writer. If the story has a step that must run just before this request, this step runs first.
func (p *poolStory) request(r *replica, verb string, request *apiserver.Request) (*unstructured.Unstructured, error) {
	p.sent++
	steps := p.before[p.sent]
	delete(p.before, p.sent)
	for _, step := range steps {
		if err := p.step(step); err != nil {
			return nil, err
		}
	}
	u, err := p.api.Send(p.pool, request)
	p.answered(r.name, verb, err)
	return u, err
}
