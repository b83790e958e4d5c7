// Package events posts Kubernetes Events. It defines the reasons of all Events of the controller.
//
// A Recorder sends the Events in the background, so that a tick never waits for the API server. Other packages use it as a Sender.
package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	typedevents "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/gpuscaler/gpuscaler/pkg/printable"
)

// clusterAnnotation is an annotation of every Event with the cluster's name, because Events of several clusters are often collected in one
// place.
const clusterAnnotation = "gpuscaler.io/cluster"

// ReportingController is the reporting controller of every Event.
const ReportingController = "gpuscaler.io/gpuscaler"

// Reasons of Events. They must not change, because users' alerts can match them. The reasons of Events about NodePools are in packages
// cluster and nodepoolwriter.
const (
	TargetChanged             = "TargetChanged"             // the served target differs from the previous target
	SignalsMissing            = "SignalsMissing"            // a signal is missing: the target can increase but not decrease
	SignalsRecovered          = "SignalsRecovered"          // every required signal is available again
	HPAMisconfigured          = "HPAMisconfigured"          // an HPA does not exactly follow the target that it reads
	ScaledObjectMisconfigured = "ScaledObjectMisconfigured" // a ScaledObject with gpuscaler's trigger has a configuration error
	KEDAManaged               = "KEDAAnnotated"             // gpuscaler set or removed KEDA annotations, as gpuscaler.io/manage-keda permits
	KEDAManageFailed          = "KEDAAnnotationFailed"      // the API server refused an annotation of KEDA, or another field manager owns it
	SharedGPU                 = "SharedGPU"                 // a policy reads the activity of GPUs that other pods also use
	PodsRejected              = "PodsRejected"              // a ResourceQuota, a LimitRange or another admission check rejects pods
	AnnotationInvalid         = "AnnotationInvalid"         // a gpuscaler.io annotation is not valid
	PolicyInvalid             = "PolicyInvalid"             // a policy in annotations or in a ConfigMap is not valid and not used
	PolicyAccepted            = "PolicyAccepted"            // the policies of a ConfigMap are accepted and used
	PolicyStatusConflict      = "PolicyStatusConflict"      // another field manager owns the annotation gpuscaler.io/policy-status
	SourceLimit               = "SourceLimitExceeded"       // a namespace exceeds a limit of a data source, so its own signals are missing
	Activated                 = "ActivatedFromZero"         // the Activator scaled a workload from 0 to 1
	Deactivated               = "DeactivatedToZero"         // the Activator scaled a workload from 1 to 0
	ActivationFailed          = "ActivationFailed"          // the API server refused the write of the Activator
	// a policy has activate: true in a namespace in which gpuscaler may not write /scale
	ActivationRefused = "ActivationRefused"
	// another release overrides a NodePool of this release, so this release does not lead
	AnotherRelease     = "AnotherRelease"
	APIServiceConflict = "APIServiceConflict"   // another Service replaced the Service of this release in the APIService of external metrics
	APIServiceOccupied = "APIServiceOccupied"   // the mode is owner, but the APIService names another service
	APIServiceTaken    = "APIServiceRegistered" // the API server now reads external metrics from this release
)

const (
	queueLength = 1000 // maximum number of queued Events of all namespaces; an Event that does not fit is dropped and counted
	burst       = 100
	perSecond   = 10
	postTimeout = 5 * time.Second
	maxNote     = 1024 // in bytes; the API server refuses longer notes
	maxInstance = 128  // in bytes; the API server refuses a longer name of the reporting instance
)

// Sender queues an Event about an object without waiting for the API server. kind is corev1.EventTypeNormal or corev1.EventTypeWarning.
type Sender interface {
	Send(about corev1.ObjectReference, kind, reason, note string)
}

// Options configure a Recorder.
type Options struct {
	Instance string // name of this process in Events: the name of its pod
	// ClusterName returns the cluster's name, for an annotation of every Event. nil or an empty name: no annotation.
	ClusterName func() string
	Log         *slog.Logger
	// Metrics is the registry for the counter of lost Events. nil: the counter is not registered. Recorders with the same registry share the
	// counter.
	Metrics prometheus.Registerer
}

// Recorder posts Events. It does not use client-go's recorder, because that recorder combines Events with the same reason into a series
// that keeps the first note: the note would remain "6 -> 9" after the target has changed to 12.
type Recorder struct {
	client   typedevents.EventsV1Interface
	instance string
	cluster  func() string
	queue    *queue
	limit    flowcontrol.RateLimiter
	log      *slog.Logger
	lost     prometheus.Counter
}

// NewRecorder returns a Recorder. It posts nothing before Run.
func NewRecorder(client typedevents.EventsV1Interface, o Options) *Recorder {
	instance := o.Instance
	if instance == "" {
		instance = "gpuscaler" // the API server refuses an Event without a reporting instance
	}
	if len(instance) > maxInstance {
		instance = instance[len(instance)-maxInstance:] // keep the end of the pod's name, which distinguishes it from other pods
	}
	r := &Recorder{
		client: client, instance: instance, cluster: o.ClusterName, log: o.Log,
		queue: newQueue(),
		limit: flowcontrol.NewTokenBucketRateLimiter(perSecond, burst),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gpuscaler_events_lost_total",
			Help: "Kubernetes Events that were not written, because there were too many at once or the API server refused them.",
		}),
	}
	if o.Metrics == nil {
		return r
	}
	var other prometheus.AlreadyRegisteredError
	if err := o.Metrics.Register(r.lost); errors.As(err, &other) {
		r.lost = other.ExistingCollector.(prometheus.Counter) // use the counter of another Recorder of this process
	} else if err != nil {
		panic(err) // a registration error is a programming error, as in MustRegister
	}
	return r
}

// Send queues an Event without waiting for the API server. kind is corev1.EventTypeNormal or corev1.EventTypeWarning.
func (r *Recorder) Send(about corev1.ObjectReference, kind, reason, note string) {
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // Events about cluster-scoped objects are stored in the namespace default
	}
	note = printable.Clean(note)
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "")
	}
	now := time.Now() // may use the clock: an Event contains the time at which it was sent
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: eventName(about.Name, now), Namespace: namespace},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: ReportingController,
		ReportingInstance:   r.instance,
		Action:              reason,
		Reason:              reason,
		Regarding:           about,
		Note:                note,
		Type:                kind,
	}
	if r.cluster != nil {
		if name := r.cluster(); name != "" {
			event.Annotations = map[string]string{clusterAnnotation: name}
		}
	}
	if !r.queue.push(event) {
		r.lost.Inc()
	}
}

// eventName returns the name of an Event: the object's name followed by the time. It shortens the object's name if the result would be
// longer than Kubernetes allows.
func eventName(about string, now time.Time) string {
	suffix := fmt.Sprintf(".%x", now.UnixNano())
	if most := validation.DNS1123SubdomainMaxLength - len(suffix); len(about) > most {
		about = strings.TrimRight(about[:most], "-.")
	}
	return about + suffix
}

// Run posts queued Events until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	for {
		event := r.queue.pop()
		if event == nil {
			select {
			case <-ctx.Done():
				return
			case <-r.queue.added:
				continue
			}
		}
		if r.limit.Wait(ctx) != nil {
			return
		}
		r.post(ctx, event)
	}
}

func (r *Recorder) post(ctx context.Context, event *eventsv1.Event) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	_, err := r.client.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
	// A namespace that is being deleted accepts no new Event. This is not an error, because the Event would be deleted with the namespace.
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
	default:
		r.lost.Inc()
		r.log.Warn("an Event was not written", "reason", event.Reason, "object", event.Regarding.Name, "error", err)
	}
}
