package buffers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	karpautoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
)

// requestTimeout limits one request. After a failure, a later tick repeats the write.
const requestTimeout = 10 * time.Second

// Writer writes and removes gpuscaler's CapacityBuffers.
type Writer struct {
	Client  dynamic.Interface
	Leading func() bool
	Writes  *prometheus.CounterVec // number of writes, by object and result
	Log     *slog.Logger

	mu     sync.Mutex
	failed map[string]string // the last error of each buffer, so that a repeated error is logged once
}

var errOtherOwner = errors.New("a CapacityBuffer of that name belongs to another owner: rename the policy or that buffer")

// Write writes or removes one CapacityBuffer. It never changes a buffer that gpuscaler does not own.
func (w *Writer) Write(t Task) {
	if !w.Leading() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	done, err := w.write(ctx, t)
	if done == "" && err == nil {
		return
	}
	name := t.Namespace + "/" + namePrefix + t.Policy
	log := w.Log.With("buffer", name, "replicas", t.Replicas)
	switch {
	case err == nil:
		w.count("written")
		log.Info("CapacityBuffer " + done)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		w.count("conflict")
		log.Debug("the CapacityBuffer was changed meanwhile", "error", err)
	default:
		w.count("failed")
		if w.isNew(name, err.Error()) { // a repeated error is not logged, because a failed write is repeated every ten seconds
			log.Error("the CapacityBuffer was not "+done, "error", err)
		}
	}
}

// write writes or removes the buffer. done is "written" or "removed", even if the request failed. It is "" if no request was necessary.
func (w *Writer) write(ctx context.Context, t Task) (done string, err error) {
	client, name := w.Client.Resource(Resource).Namespace(t.Namespace), namePrefix+t.Policy
	done = "written"
	if t.Replicas <= 0 {
		done = "removed"
	}
	switch {
	case t.existing != nil && !t.existing.ours:
		return done, errOtherOwner
	case t.Replicas <= 0 && t.existing == nil:
		return "", nil
	case t.Replicas <= 0:
		uid := t.existing.UID
		return done, client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	case t.Owner == nil:
		return done, fmt.Errorf("%s %s does not exist", t.Target.Kind, t.Target.Name)
	case t.LimitsOnly:
		// Karpenter 1.15 reads only the requests in the pod template. The API server copies limits to requests in a pod but not in a pod
		// template, so Karpenter would keep a node without GPUs for the buffer.
		return done, fmt.Errorf("the pod template of %s %s has limits of GPUs but no requests, so the buffer would keep no GPU: "+
			"set the same value under requests", t.Target.Kind, t.Target.Name)
	}
	object, err := t.object(name)
	if err != nil {
		return done, err
	}
	_, err = client.Apply(ctx, name, object, metav1.ApplyOptions{FieldManager: ownership.Manager})
	return done, err
}

func (w *Writer) count(result string) { w.Writes.WithLabelValues("capacitybuffer", result).Inc() }

// isNew reports whether an error differs from the last error of the buffer.
func (w *Writer) isNew(buffer, text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = map[string]string{}
	}
	before := w.failed[buffer]
	w.failed[buffer] = text
	return before != text
}

// object returns the fields that gpuscaler applies to the buffer: its metadata and the fields of the spec that gpuscaler sets, without a
// status.
func (t *Task) object(name string) (*unstructured.Unstructured, error) {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&karpautoscaling.CapacityBufferSpec{
		ScalableRef: &karpautoscaling.ScalableRef{APIGroup: t.Target.Group, Kind: t.Target.Kind, Name: t.Target.Name},
		Replicas:    &t.Replicas,
	})
	if err != nil {
		return nil, fmt.Errorf("encode CapacityBuffer %s/%s: %w", t.Namespace, name, err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(Kind)
	u.SetNamespace(t.Namespace)
	u.SetName(name)
	u.SetLabels(map[string]string{managedByLabel: ownership.Manager})
	u.SetOwnerReferences([]metav1.OwnerReference{*t.Owner})
	return u, nil
}
