// Package configmaps reads the ConfigMaps with policies that teams apply in their own namespaces, and reports by Events which policies are
// accepted and why other policies are refused.
//
// A Reader has one informer for each listed namespace, which requests only ConfigMaps with the label gpuscaler.io/policy: "true". The
// policy store checks the policies and refuses policies that the PlatformConfig does not permit.
package configmaps

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/informer"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/policystatus"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/rounds"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// Selector selects the ConfigMaps that contain policies.
const Selector = "gpuscaler.io/policy=true"

// reportInterval is the time between two checks whether the accepted policies have changed. A ConfigMap that changes each second therefore
// causes few Events.
const reportInterval = 10 * time.Second

// Policies receives the ConfigMaps. The policy store implements it.
type Policies interface {
	SetConfigMap(store.ConfigMap)
	DeleteConfigMap(namespace, name string)
	ConfigMapStatuses() []store.ConfigMapStatus
	Publish()
}

// Options configure a Reader.
type Options struct {
	Client     kubernetes.Interface
	Namespaces []string // the namespaces to read; the service account needs the verbs list and watch on their ConfigMaps
	Policies   Policies
	Events     events.Sender
	// Leading reports whether this process is the leader. A standby sends no Events.
	Leading func() bool
	// Status writes the status of the policies of each ConfigMap into an annotation of the ConfigMap. nil: the annotation is not written.
	Status *policystatus.Writer
	Log    *slog.Logger
}

// Reader reads ConfigMaps and reports which of their policies the policy store accepts.
type Reader struct {
	options  Options
	synced   map[string]toolscache.InformerSynced // by namespace; written before started is closed
	started  chan struct{}
	reported map[types.NamespacedName]string // the accepted policies of each ConfigMap, as in the last Event about it
}

// New returns a Reader. It reads nothing before Run.
func New(o Options) *Reader {
	return &Reader{options: o, synced: map[string]toolscache.InformerSynced{}, started: make(chan struct{}),
		reported: map[types.NamespacedName]string{}}
}

// Run reads the ConfigMaps of all namespaces and reports changes until ctx ends.
func (r *Reader) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, namespace := range r.options.Namespaces {
		all := coreinformers.NewFilteredConfigMapInformer(r.options.Client, namespace, 0, toolscache.Indexers{},
			func(o *metav1.ListOptions) { o.LabelSelector = Selector })
		if err := all.SetTransform(Trim); err != nil {
			// SetTransform fails only if the informer already runs.
			r.options.Log.Error("cannot read ConfigMaps", "namespace", namespace, "error", err)
			continue
		}
		handler, err := all.AddEventHandler(informer.Handler(r.put, r.drop))
		if err != nil {
			r.options.Log.Error("cannot read ConfigMaps", "namespace", namespace, "error", err)
			continue
		}
		r.synced[namespace] = handler.HasSynced
		running.Go(func() { all.RunWithContext(ctx) })
	}
	close(r.started)
	rounds.Every(ctx, reportInterval, func(time.Time) { r.report() })
}

// put passes a ConfigMap to the policy store if its data changed. A change of its annotations or labels does not change its policies.
func (r *Reader) put(old, c *ConfigMap) {
	if old == nil || !old.content.Equal(&c.content) {
		r.options.Policies.SetConfigMap(c.content)
	}
	if r.options.Status != nil {
		r.options.Status.Put(c.reference(), c.status)
	}
}

// drop removes a ConfigMap that was deleted, or whose label was removed.
func (r *Reader) drop(c *ConfigMap) {
	r.options.Policies.DeleteConfigMap(c.Namespace, c.Name)
	if r.options.Status != nil {
		r.options.Status.Unlabeled(c.reference())
	}
}

// WaitForSync waits until the ConfigMaps of all namespaces have been read, or until the time limit. Then the policy store publishes the
// policies that were read. WaitForSync logs each namespace that was not read in time. gpuscaler starts without the policies of these
// namespaces, so that it can scale the workloads of the other namespaces.
func (r *Reader) WaitForSync(ctx context.Context, limit time.Duration) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-r.started:
	case <-ctx.Done():
		return
	}
	for namespace, synced := range r.synced {
		if !toolscache.WaitForCacheSync(bounded.Done(), synced) && ctx.Err() == nil {
			r.options.Log.Error("the ConfigMaps of a namespace cannot be listed; their policies are not in force until they can: does the "+
				"Role of the chart value teamConfigMaps.namespaces exist?", "namespace", namespace)
		}
	}
	r.options.Policies.Publish()
}

// Problems returns the problems of all ConfigMaps, for Events.
func (r *Reader) Problems() (all []cache.Problem) {
	for _, st := range r.options.Policies.ConfigMapStatuses() {
		for _, p := range st.Problems {
			all = append(all, cache.Problem{About: reference(&st), Text: p.String()})
		}
	}
	return all
}

// report sends an Event for each ConfigMap whose accepted policies changed.
func (r *Reader) report() {
	if !r.options.Leading() {
		clear(r.reported)
		return
	}
	existing := map[types.NamespacedName]bool{}
	for _, st := range r.options.Policies.ConfigMapStatuses() {
		name := types.NamespacedName{Namespace: st.Namespace, Name: st.Name}
		existing[name] = true
		now := strings.Join(st.InForce, ", ")
		if now == r.reported[name] {
			continue
		}
		if r.reported[name] = now; now != "" {
			r.options.Events.Send(reference(&st), corev1.EventTypeNormal, events.PolicyAccepted, "in force: "+now)
		}
	}
	maps.DeleteFunc(r.reported, func(name types.NamespacedName, _ string) bool { return !existing[name] })
}

func reference(st *store.ConfigMapStatus) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: st.Namespace, Name: st.Name, UID: types.UID(st.UID)}
}

// ConfigMap contains the data of a ConfigMap that the informer stores.
type ConfigMap struct {
	metav1.ObjectMeta
	content store.ConfigMap
	status  policystatus.Written
}

func (c *ConfigMap) reference() corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: c.Namespace, Name: c.Name, UID: c.UID}
}

// Trim is the transform of the informers. It returns a *ConfigMap without labels, annotations and managed fields. If the data of a
// ConfigMap is too large, Trim omits the data.
func Trim(obj any) (any, error) {
	object, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return obj, nil
	}
	return &ConfigMap{ObjectMeta: informer.Identity(object), content: Content(object), status: policystatus.Read(object)}, nil
}

// Content returns the part of a ConfigMap that the policy store reads. If the data of the ConfigMap is too large, Content omits the data.
func Content(object *corev1.ConfigMap) store.ConfigMap {
	out := store.ConfigMap{
		Namespace: object.Namespace, Name: object.Name, UID: string(object.UID), Created: object.CreationTimestamp.Time,
	}
	for key, text := range object.Data {
		out.Bytes += len(key) + len(text)
	}
	for key, text := range object.BinaryData {
		out.Bytes += len(key) + len(text)
	}
	if out.Bytes <= store.MaxConfigMapBytes {
		out.Data, out.Binary = object.Data, slices.Sorted(maps.Keys(object.BinaryData))
	}
	return out
}
