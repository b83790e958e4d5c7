// Package restore restores the fields of NodePools that gpuscaler overrides, removes gpuscaler's annotations from pods and from the objects
// that contain policies, and deletes gpuscaler's CapacityBuffers. The command `gpuscaler restore` uses this package. The chart runs the
// command before gpuscaler is uninstalled.
//
// Run performs all these steps and returns a Result for each object.
package restore

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/buffers"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/leader"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodepoolwriter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/policystatus"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
)

// Options configure Run.
type Options struct {
	Lease    types.NamespacedName
	Identity string   // identity of this command in the Lease
	Names    []string // names of NodePools; empty: every NodePool with a record or fields of gpuscaler, all pods and all CapacityBuffers
	DryRun   bool     // only return what would be restored, and write no object, not even the Lease
	// KeepLease keeps the Lease for half a minute after the command, so that no controller leads between the command and an uninstallation.
	KeepLease bool
	// If SkipCapacity is true, NodePools, annotations of pods and CapacityBuffers are not restored. If SkipNodePools is true, only NodePools
	// are not restored. If SkipPolicyStatus is true, the annotation gpuscaler.io/policy-status is not removed.
	SkipCapacity, SkipNodePools, SkipPolicyStatus bool
	// PolicyStatusIn are the namespaces in which the annotation gpuscaler.io/policy-status is removed from HPAs and ScaledObjects.
	// ConfigMapsIn are the namespaces in which it is removed from ConfigMaps. If both are empty, it is removed in all namespaces.
	PolicyStatusIn, ConfigMapsIn []string
	Log                          *slog.Logger
}

// Result is the result for one NodePool, one annotation of an object or one CapacityBuffer.
type Result struct {
	Object  string   `json:"object"`
	Changes []string `json:"changes"`
	Error   string   `json:"error,omitempty"`
	Skipped string   `json:"skipped,omitempty"` // why the objects of this kind were not searched
}

func (r Result) failed(err error) Result {
	r.Error = err.Error()
	return r
}

// maxAttempts is the maximum number of times that one NodePool is read and patched. A restore needs up to three patches (values, owners of
// the fields, record annotation). The remaining attempts are for conflicts.
const maxAttempts = 8

// Run restores the objects that the options select. It holds the controller's Lease until it returns, so that no controller overrides a
// field again. If the restore of one object fails, Run continues with the other objects. If Run returns an error, it also returns the
// results so far.
func Run(ctx context.Context, client kubernetes.Interface, objects dynamic.Interface, o Options) ([]Result, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if !o.DryRun {
		taking := leader.Taking{Client: client, Lease: o.Lease, Identity: o.Identity, Log: o.Log, Expire: o.KeepLease}
		held, release, err := taking.Take(ctx)
		if err != nil {
			return nil, fmt.Errorf("lease %s: %w", o.Lease, err)
		}
		defer release()
		ctx = held
	}
	r := newRestorer(client, objects, o)
	if o.SkipCapacity {
		return r.policyStatuses(ctx)
	}
	done, err := r.nodePools(ctx)
	if err != nil {
		return nil, err
	}
	for _, restore := range []func(context.Context) ([]Result, error){r.annotations, r.buffers, r.policyStatuses} {
		more, err := restore(ctx)
		if done = append(done, more...); err != nil {
			return done, err
		}
	}
	return done, nil
}

// policyStatuses removes the annotation gpuscaler.io/policy-status and returns a result for each object. If Options.Names is set, it does
// nothing.
func (r *restorer) policyStatuses(ctx context.Context) (done []Result, err error) {
	if len(r.options.Names) > 0 || r.options.SkipPolicyStatus {
		return nil, nil
	}
	remover := policystatus.Remover{Client: r.client, Objects: r.objects, Namespaces: r.options.PolicyStatusIn,
		ConfigMapsIn: r.options.ConfigMapsIn, DryRun: r.options.DryRun}
	removed, err := remover.RemoveAll(ctx)
	for _, o := range removed {
		out := Result{Object: o.Object, Skipped: o.Skipped}
		switch {
		case o.Err != nil:
			out = out.failed(o.Err)
		case o.Skipped == "":
			out.Changes = []string{annotations.PolicyStatus + " removed"}
		}
		done = append(done, out)
	}
	return done, err
}

type restorer struct {
	client   kubernetes.Interface
	objects  dynamic.Interface
	options  Options
	releases *leader.Releases
	writer   *nodepoolwriter.Writer
	schema   karpenter.Schema
}

func newRestorer(client kubernetes.Interface, objects dynamic.Interface, o Options) *restorer {
	r := &restorer{client: client, objects: objects, options: o, releases: leader.NewReleases(client, o.Lease.String())}
	r.writer = nodepoolwriter.New(nodepoolwriter.Options{
		Client: objects, Release: o.Lease.String(), Writes: nodepoolwriter.NewWritesMetric(), Log: o.Log,
		Leading:           func() bool { return true }, // always true, because Run holds the Lease
		OverriddenByOther: r.overriddenByOther,
		Current:           func(string) *karpenter.NodePool { return nil },
		Event:             func(corev1.ObjectReference, string, string, string) {},
	})
	return r
}

// overriddenByOther returns the reason why another release is assumed to lead and to override the NodePool. It returns "" if no other
// leading release wrote the record annotation of the NodePool.
func (r *restorer) overriddenByOther(ctx context.Context, p *karpenter.NodePool) string {
	if p.Record() == "" {
		return ""
	}
	return r.releases.Leads(ctx, p.Holder)
}

func (r *restorer) nodePools(ctx context.Context) (done []Result, err error) {
	if r.options.SkipNodePools {
		return nil, nil
	}
	all, err := r.list(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil // Karpenter is not installed
	}
	if err != nil {
		return nil, fmt.Errorf("list NodePools: %w", err)
	}
	if r.schema, err = karpenter.ReadSchema(r.client.Discovery()); err != nil {
		return nil, fmt.Errorf("read the schema of NodePools: %w", err)
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range r.options.Names {
		if all[name] == nil {
			return nil, fmt.Errorf("there is no NodePool %s", name)
		}
	}
	for _, name := range names {
		if all[name].Ours && r.selected(ctx, all[name]) {
			done = append(done, r.nodePool(ctx, name))
		}
	}
	return done, nil
}

// selected reports whether to restore a NodePool. If Options.Names is set, it selects the named NodePools. Otherwise it selects all
// NodePools except the NodePools that another leading release overrides, because that release would override them again.
func (r *restorer) selected(ctx context.Context, p *karpenter.NodePool) bool {
	if len(r.options.Names) > 0 {
		return slices.Contains(r.options.Names, p.Name())
	}
	why := r.overriddenByOther(ctx, p)
	if why != "" {
		r.options.Log.Warn("not restored: another gpuscaler release overrides the NodePool", "nodepool", p.Name(), "lease", p.Holder, "why", why)
	}
	return why == ""
}

func (r *restorer) list(ctx context.Context) (map[string]*karpenter.NodePool, error) {
	list, err := r.objects.Resource(karpenter.NodePools).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := map[string]*karpenter.NodePool{}
	for i := range list.Items {
		p := karpenter.DecodeNodePool(&list.Items[i])
		all[p.Name()] = p
	}
	return all, nil
}

// nodePool patches one NodePool until it has neither a record annotation nor a field that gpuscaler owns, and returns the changes.
func (r *restorer) nodePool(ctx context.Context, name string) Result {
	out := Result{Object: "NodePool " + name}
	var last error
	for range maxAttempts {
		all, err := r.list(ctx)
		if err != nil {
			return out.failed(err)
		}
		pool := all[name]
		if pool == nil || !pool.Ours {
			return out
		}
		// Each attempt begins with an empty state. With a state that contains the previous patch, the changes of that patch would be repeated
		// only after a delay. An empty state is sufficient, because the record annotation contains all data that is needed for a restore.
		var state capacity.State
		patch, findings, ok := r.patch(pool, &state, time.Now()) // may use the clock: a command has no tick
		if !ok {
			return out.failed(notPatchable(pool, findings))
		}
		for _, line := range strings.Split(strings.TrimSpace(patch.Text()), "\n") {
			if len(patch.Changes) > 0 && !slices.Contains(out.Changes, line) {
				out.Changes = append(out.Changes, line)
			}
		}
		if r.options.DryRun {
			return out
		}
		if last = r.writer.Patch(ctx, patch, pool); last != nil && !apierrors.IsConflict(last) {
			return out.failed(last)
		}
	}
	return out.failed(fmt.Errorf("another client changed the NodePool before each of %d patches; stop that client and run the "+
		"command again: %w", maxAttempts, last))
}

// notPatchable returns an error that says why gpuscaler may not restore a NodePool and what the user can do.
func notPatchable(p *karpenter.NodePool, findings string) error {
	if p.Consent()&(nodepool.ConsentLimits|nodepool.ConsentWeight|nodepool.ConsentDisruption) == 0 {
		return fmt.Errorf("its annotation %s lists no field, so gpuscaler is not allowed to write the NodePool; list the "+
			"fields to restore there and run the command again%s", karpenter.ConsentAnnotation, findings)
	}
	return fmt.Errorf("gpuscaler is not allowed to write all of its fields of the NodePool, or its record; compare the annotation %s with "+
		"the managedFields of gpuscaler%s", karpenter.ConsentAnnotation, findings)
}

// patch returns the next patch that restores a NodePool. ok is false if no patch is needed or possible. findings lists the fields that stay
// overridden because the owner of the NodePool has withdrawn the consent.
func (r *restorer) patch(p *karpenter.NodePool, s *capacity.State, now time.Time) (patch capacity.NodePoolPatch, findings string, ok bool) {
	name := p.Name()
	g, known := capacity.Orphan(name, p.Record())
	if !known {
		var err error
		if g, err = capacity.NewGroup(capacity.Group{Name: name, Resource: "nvidia.com/gpu", Pools: []capacity.Pool{{Name: name}}}); err != nil {
			return patch, "", false
		}
	}
	o := capacity.Observation{Pools: []capacity.PoolView{p.View(g, nil, r.schema)}, Lost: true}
	var d capacity.Decision
	s.Release(g, &o, now, &d)
	for _, a := range d.Actions {
		if p, is := a.(capacity.NodePoolPatch); is {
			return p, "", true
		}
	}
	for i := range d.Findings {
		if kind := d.Findings[i].Kind; kind == explain.FindConsentWithdrawn || kind == explain.FindNewerRecord {
			findings += "; " + d.Findings[i].Text(g.Names())
		}
	}
	return patch, findings, false
}

// annotations removes gpuscaler's annotations from all pods and returns a result for each annotation. If Options.Names is set, it does
// nothing.
func (r *restorer) annotations(ctx context.Context) (done []Result, err error) {
	if len(r.options.Names) > 0 {
		return nil, nil
	}
	managers := map[capacity.AnnotationKind]string{
		capacity.DeletionCost: ownership.DeletionCostManager, capacity.DoNotDisrupt: ownership.DoNotDisruptManager,
	}
	page := metav1.ListOptions{Limit: 500}
	for {
		list, err := r.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, page)
		if err != nil {
			return done, fmt.Errorf("list pods: %w", err)
		}
		for i := range list.Items {
			p := &list.Items[i]
			for kind, manager := range managers {
				if !ownership.HasManager(p.ManagedFields, manager) {
					continue
				}
				mark := capacity.PodAnnotation{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Kind: kind, Rule: explain.RuleRelease}
				done = append(done, Result{Object: "Pod " + p.Namespace + "/" + p.Name, Changes: []string{strings.TrimSpace(mark.Text())}})
				if !r.options.DryRun {
					r.writer.WriteAnnotation(mark)
				}
			}
		}
		if page.Continue = list.Continue; page.Continue == "" {
			return done, nil
		}
	}
}

// buffers deletes gpuscaler's CapacityBuffers and returns a result for each buffer. If Options.Names is set, it does nothing.
func (r *restorer) buffers(ctx context.Context) (done []Result, err error) {
	if len(r.options.Names) > 0 {
		return nil, nil
	}
	remover := buffers.Remover{
		Discovery: r.client.Discovery(), Client: r.objects, DryRun: r.options.DryRun,
		Allowed: func(ctx context.Context, verb string) (bool, error) { return buffers.AskAllowed(ctx, r.client, verb) },
	}
	removed, err := remover.RemoveAll(ctx)
	for _, b := range removed {
		out := Result{Object: b.Object, Changes: []string{"removed"}}
		if b.Err != nil {
			out = Result{Object: b.Object}.failed(b.Err)
		}
		done = append(done, out)
	}
	return done, err
}
