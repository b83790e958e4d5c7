package agreement

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// nodePools are the requests for NodePools that a story sends.
type nodePools interface {
	Create(u *unstructured.Unstructured, manager string) error
	Get(name string) (*unstructured.Unstructured, error)
	Send(name string, r *apiserver.Request) (*unstructured.Unstructured, error)
	Delete(name string) error
	// Events returns the events of a watch of the NodePool with that name since the beginning.
	Events(name string) ([]string, error)
}

// poolStory is a running story about the NodePool of a group.
type poolStory struct {
	api      nodePools
	pool     string
	now      time.Time // of the replicas; the story sets it, so that both sides write the same times
	group    *capacity.Group
	removed  bool // the group was removed from the policy files
	replicas [2]*replica
	read     *unstructured.Unstructured // what the owner has read
	uids     []types.UID                // of the NodePools with this name, in the order of their creation
	sent     int                        // requests of gpuscaler since the last step
	before   map[int][]string           // steps that happen just before a request of gpuscaler, by its number
	lines    []string
}

// replica is a process of gpuscaler: the decisions and the writer of NodePools are the product's.
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

// play runs the steps and returns what happened.
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

// answered adds the answer to a request to the lines.
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

// others runs a step of the owner of the NodePool, of a GitOps controller or of Karpenter.
func (p *poolStory) others(who, what string) error {
	manager := map[string]string{"owner": "kubectl-edit", "gitops": "argocd-controller", "karpenter": "karpenter"}[who]
	if rest, ok := arguments(what, "applies"); ok {
		return p.apply(who, rest, manager)
	}
	switch what {
	case "creates":
		return p.create()
	case "deletes":
		p.answered(who, what, p.api.Delete(p.pool))
		return nil
	case "reads":
		var err error
		p.read, err = p.api.Get(p.pool)
		return err
	}
	u, err := p.api.Get(p.pool)
	if err != nil {
		return err
	}
	if rest, ok := strings.CutSuffix(what, " of what it read"); ok {
		u, what = p.read.DeepCopy(), rest
	}
	if err := change(u, what); err != nil {
		return err
	}
	_, err = p.api.Send(p.pool, &apiserver.Request{Replace: u, Manager: manager})
	p.answered(who, what, err)
	return nil
}

// change changes a NodePool as a step says.
func change(u *unstructured.Unstructured, what string) error {
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	if limit, ok := arguments(what, "sets the limit"); ok {
		apiserver.SetField(u, limit, "spec", "limits", gpu)
		return nil
	}
	if weight, ok := arguments(what, "sets the weight"); ok {
		n, err := strconv.ParseInt(weight, 10, 64)
		apiserver.SetField(u, n, "spec", "weight")
		return err
	}
	if fields, ok := arguments(what, "lets gpuscaler override"); ok {
		annotations[karpenter.ConsentAnnotation] = strings.Trim(fields, `"`)
	}
	switch what {
	case "removes the limit":
		apiserver.SetField(u, nil, "spec", "limits", gpu)
	case "removes all limits":
		apiserver.SetField(u, nil, "spec", "limits")
	case "removes the annotations":
		annotations = nil
	case "writes":
		annotations["karpenter.sh/nodepool-hash"] += "1"
	case "changes nothing":
	default:
		if !strings.HasPrefix(what, "lets gpuscaler override") {
			return fmt.Errorf("unknown step")
		}
	}
	u.SetAnnotations(annotations)
	return nil
}

// apply runs a server-side apply of a limit: "the limit 6", "no limit", each with or without "with force".
func (p *poolStory) apply(who, what, manager string) error {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(karpenter.NodePoolKind)
	u.SetName(p.pool)
	rest, force := strings.CutSuffix(what, " with force")
	if limit, ok := arguments(rest, "the limit"); ok {
		apiserver.SetField(u, limit, "spec", "limits", gpu)
	} else if weight, ok := arguments(rest, "the weight"); ok {
		n, err := strconv.ParseInt(weight, 10, 64)
		if err != nil {
			return err
		}
		apiserver.SetField(u, n, "spec", "weight")
	} else if rest != "no limit" {
		return fmt.Errorf("unknown step")
	}
	_, err := p.api.Send(p.pool, &apiserver.Request{Apply: u, Manager: manager, Force: force})
	p.answered(who, "applies "+what, err)
	return nil
}

// gpuscaler runs a step of a replica.
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

// decide runs ticks until the decision has a patch, or until the time is over.
func (p *poolStory) decide(r *replica, wait time.Duration, demand bool) {
	end := p.now.Add(wait)
	for ; !p.now.After(end); p.now = p.now.Add(time.Second) {
		o := capacity.Observation{Pools: []capacity.PoolView{{}}}
		if r.cached != nil {
			o.Pools[0] = r.cached.View(p.group, nil, crd)
			o.Pools[0].UID = strconv.Itoa(1 + slices.Index(p.uids, r.cached.Object.GetUID())) // both sides have other UIDs
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

// crd says that the CRD of NodePools has every field.
var crd = karpenter.Schema{Known: true, Limits: true, Weight: true, ConsolidateAfter: true, ConsolidationPolicy: true, Budgets: true}

// request sends a request of the product's writer. A step that is to happen just before it happens first.
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

// end returns the final object as text: what owners, gpuscaler and the API server wrote.
func (p *poolStory) end() (string, error) {
	u, err := p.api.Get(p.pool)
	if apierrors.IsNotFound(err) {
		return "no NodePool\n", nil
	}
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "NodePool %d, generation %d\n", 1+slices.Index(p.uids, u.GetUID()), u.GetGeneration())
	for _, field := range []string{"limits", "weight", "disruption"} {
		if text := apiserver.FieldText(u, "spec", field); text != "" {
			fmt.Fprintf(&b, "  %s: %s\n", field, text)
		}
	}
	annotations := u.GetAnnotations()
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		fmt.Fprintf(&b, "  %s: %s\n", key, strings.ReplaceAll(annotations[key], p.pool, "POOL"))
	}
	var owners []string
	for _, entry := range u.GetManagedFields() {
		if fields := ownedFields(&entry); entry.Subresource == "" && len(fields) > 0 {
			owners = append(owners, fmt.Sprintf("  %s by %s: %s\n", entry.Operation, entry.Manager, strings.Join(fields, " ")))
		}
	}
	slices.Sort(owners)
	return b.String() + strings.Join(owners, ""), nil
}

// ownedFields returns the fields in an entry of managedFields that gpuscaler can override, and annotations.
func ownedFields(entry *metav1.ManagedFieldsEntry) (fields []string) {
	var tree map[string]any
	if err := json.Unmarshal(entry.FieldsV1.Raw, &tree); err != nil {
		return []string{err.Error()}
	}
	var walk func(prefix string, node map[string]any)
	walk = func(prefix string, node map[string]any) {
		for key, child := range node {
			below, _ := child.(map[string]any)
			name := prefix + strings.TrimPrefix(key, "f:")
			if len(below) > 0 {
				walk(name+".", below)
			} else if strings.HasPrefix(name, "spec.limits") || strings.HasPrefix(name, "spec.weight") ||
				strings.HasPrefix(name, "spec.disruption") || strings.HasPrefix(name, "metadata.annotations") {
				fields = append(fields, name)
			}
		}
	}
	walk("", tree)
	fields = slices.DeleteFunc(fields, func(name string) bool { return strings.HasSuffix(name, "..") })
	slices.Sort(fields)
	return fields
}
