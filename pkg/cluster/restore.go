package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/leader"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
)

// RestoreOptions say what is put back, and whose Lease is held meanwhile.
type RestoreOptions struct {
	Lease    types.NamespacedName
	Identity string   // ours, in the Lease
	Names    []string // of NodePools; empty: every one that carries our record
	DryRun   bool     // say what would be put back; neither the Lease nor anything else is written
	// KeepLease leaves the Lease to run out in the end, half a minute later, so that an uninstall finds nobody who leads again.
	KeepLease bool
	Log       *slog.Logger
}

// Restored is what came of one NodePool, of a mark on a pod, or of a CapacityBuffer.
type Restored struct {
	Object  string   `json:"object"`
	Changes []string `json:"changes"`
	Error   string   `json:"error,omitempty"`
}

// rounds is how often a NodePool is looked at and written: values, ownership, record, and a conflict or two.
const rounds = 8

// Restore puts every NodePool back that carries our record or a field of ours, takes our marks off pods and removes our
// CapacityBuffers. It holds the controller's Lease while it works, so that nobody nudges meanwhile. One that fails does not keep the
// others; an error is returned beside what was done before it.
func Restore(ctx context.Context, cfg *rest.Config, o RestoreOptions) ([]Restored, error) {
	c, err := New(cfg, Options{Groups: noGroups{}, Log: o.Log, Release: o.Lease.String()})
	if err != nil {
		return nil, err
	}
	if !o.DryRun {
		held, release, err := leader.Taking{Client: c.typed, Lease: o.Lease, Identity: o.Identity, Log: c.log, Expire: o.KeepLease}.Take(ctx)
		if err != nil {
			return nil, fmt.Errorf("lease %s: %w", o.Lease, err)
		}
		defer release()
		ctx = held
	}
	r := restorer{cluster: c, options: o}
	done, err := r.pools(ctx)
	if err != nil {
		return nil, err
	}
	marks, err := r.marks(ctx)
	if done = append(done, marks...); err != nil {
		return done, err
	}
	buffers, err := r.buffers(ctx)
	return append(done, buffers...), err
}

type noGroups struct{}

func (noGroups) Groups() []*capacity.Group { return nil }

type restorer struct {
	cluster *Cluster
	schema  nodeSchema // once there are NodePools: without Karpenter nothing describes them
	options RestoreOptions
}

func (r *restorer) pools(ctx context.Context) (done []Restored, err error) {
	all, err := r.list(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil // no Karpenter, nothing of ours
	}
	if err != nil {
		return nil, fmt.Errorf("NodePools: %w", err)
	}
	if r.schema, err = readNodeSchema(r.cluster.typed.Discovery()); err != nil {
		return nil, fmt.Errorf("NodePools cannot be read here: %w", err)
	}
	for _, name := range r.options.Names {
		if all[name] == nil {
			return nil, fmt.Errorf("there is no NodePool %s", name)
		}
	}
	for _, name := range sortedNames(all) {
		if all[name].ours && r.asked(ctx, name, all[name]) {
			done = append(done, r.pool(ctx, name))
		}
	}
	return done, nil
}

// asked reports whether a NodePool is to be restored: one that is named, or without names every one but those of a release that still leads,
// which would override them again.
func (r *restorer) asked(ctx context.Context, name string, f *poolFacts) bool {
	if len(r.options.Names) > 0 {
		return slices.Contains(r.options.Names, name)
	}
	why := r.cluster.overridden(ctx, f)
	if why != "" {
		r.cluster.log.Warn("not restored: another gpuscaler release overrides the NodePool", "nodepool", name, "lease", f.holder, "why", why)
	}
	return why == ""
}

func (r *restorer) list(ctx context.Context) (map[string]*poolFacts, error) {
	list, err := r.cluster.dynamic.Resource(nodePoolResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := map[string]*poolFacts{}
	for i := range list.Items {
		all[list.Items[i].GetName()] = poolOf(&list.Items[i])
	}
	return all, nil
}

// pool releases one NodePool until nothing of it is ours.
func (r *restorer) pool(ctx context.Context, name string) (out Restored) {
	out.Object = "NodePool " + name
	var state capacity.State
	var last error
	now := time.Now() // I/O edge: a command has no tick
	for range rounds {
		all, err := r.list(ctx)
		if err != nil {
			return out.failed(err)
		}
		facts := all[name]
		if facts == nil || !facts.ours {
			return out
		}
		patch, findings, ok := r.release(facts, &state, now)
		switch {
		case !ok && facts.view.Consent&(capacity.ConsentLimits|capacity.ConsentWeight|capacity.ConsentDisruption) == 0:
			return out.failed(fmt.Errorf("its annotation %s lists no field, so that gpuscaler may not write it; annotate it with the fields "+
				"to restore and run this again%s", NudgeAnnotation, findings))
		case !ok:
			return out.failed(fmt.Errorf("fields or a record of gpuscaler are left and may not be written; see its annotation %s and "+
				"its managedFields%s", NudgeAnnotation, findings))
		}
		for _, line := range strings.Split(strings.TrimSpace(patch.Text()), "\n") {
			if len(patch.Changes) > 0 && !slices.Contains(out.Changes, line) {
				out.Changes = append(out.Changes, line)
			}
		}
		if r.options.DryRun {
			return out
		}
		if last = r.cluster.nodes.hands.patch(ctx, patch, facts.object); last != nil && !apierrors.IsConflict(last) {
			return out.failed(last)
		}
		now = now.Add(11 * time.Second) // package capacity repeats what it does not see after 10
	}
	return out.failed(fmt.Errorf("it changes all the time: %v", last))
}

func (out Restored) failed(err error) Restored {
	out.Error = err.Error()
	return out
}

// release returns the next patch that restores a NodePool; without one, findings says what stays overridden and why.
func (r *restorer) release(f *poolFacts, s *capacity.State, now time.Time) (patch capacity.NodePoolPatch, findings string, ok bool) {
	name := f.object.GetName()
	g, known := capacity.Orphan(name, f.view.Record)
	if !known {
		var err error
		if g, err = capacity.NewGroup(capacity.Group{Name: name, Resource: "nvidia.com/gpu", Pools: []capacity.Pool{{Name: name}}}); err != nil {
			return patch, "", false
		}
	}
	o := capacity.Observation{Pools: []capacity.PoolView{f.of(g, nil, r.schema)}, Lost: true}
	var d capacity.Decision
	s.Release(g, &o, now, &d)
	for _, a := range d.Actions {
		if p, is := a.(capacity.NodePoolPatch); is {
			return p, "", true
		}
	}
	for i := range d.Findings {
		if d.Findings[i].Kind == capacity.FindConsentWithdrawn {
			findings += "; " + d.Findings[i].Text(g)
		}
	}
	return patch, findings, false
}

// marks takes our annotations off every pod.
func (r *restorer) marks(ctx context.Context) (done []Restored, err error) {
	if len(r.options.Names) > 0 {
		return nil, nil
	}
	page := metav1.ListOptions{Limit: 500}
	for {
		list, err := r.cluster.typed.CoreV1().Pods(metav1.NamespaceAll).List(ctx, page)
		if err != nil {
			return done, fmt.Errorf("pods: %w", err)
		}
		for i := range list.Items {
			p := &list.Items[i]
			for kind, manager := range map[capacity.AnnotationKind]string{capacity.DeletionCost: ownership.DeletionCostManager, capacity.DoNotDisrupt: ownership.DoNotDisruptManager} {
				if !ownership.HasManager(p.ManagedFields, manager) {
					continue
				}
				mark := capacity.PodAnnotation{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Kind: kind, Rule: capacity.RuleRelease}
				done = append(done, Restored{Object: "Pod " + p.Namespace + "/" + p.Name, Changes: []string{strings.TrimSpace(mark.Text())}})
				if !r.options.DryRun {
					r.cluster.nodes.hands.mark(mark)
				}
			}
		}
		if page.Continue = list.Continue; page.Continue == "" {
			return done, nil
		}
	}
}
