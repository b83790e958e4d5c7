package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	typedevents "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/gpuscaler/gpuscaler/pkg/printable"
)

// clusterAnnotation names the cluster on every Event: Events of several clusters are often collected in one place.
const clusterAnnotation = "gpuscaler.io/cluster"

// reportingController is who our Events come from.
const reportingController = "gpuscaler.io/gpuscaler"

// Reasons of our Events. Alerts may match them: they stay.
const (
	ReasonTargetChanged             = "TargetChanged"             // the number that is served differs from the one before
	ReasonSignalsMissing            = "SignalsMissing"            // decided on missing inputs: may rise, may not fall
	ReasonSignalsRecovered          = "SignalsRecovered"          // every required input is there again
	ReasonHPAMisconfigured          = "HPAMisconfigured"          // an HPA will not follow its number exactly
	ReasonScaledObjectMisconfigured = "ScaledObjectMisconfigured" // a ScaledObject with our trigger will not do what it says
	ReasonKEDAManaged               = "KEDAAnnotated"             // we applied or took back annotations of KEDA's, as gpuscaler.io/manage-keda allows
	ReasonKEDAManageFailed          = "KEDAAnnotationFailed"      // the API server, or another owner, refused it
	ReasonSharedGPU                 = "SharedGPU"                 // a policy reads the activity of GPUs that other pods use too
	ReasonAnnotationInvalid         = "AnnotationInvalid"         // an annotation of ours is not understood
	ReasonPolicyInvalid             = "PolicyInvalid"             // the policy in an object's annotations is held back
	ReasonSourceLimit               = "SourceLimitExceeded"       // a namespace exceeds a limit at a data source: its own signals are missing
	ReasonActivated                 = "ActivatedFromZero"         // we wrote /scale 0 -> 1
	ReasonDeactivated               = "DeactivatedToZero"         // we wrote /scale 1 -> 0
	ReasonActivationFailed          = "ActivationFailed"          // the API server refused it
	ReasonActivationRefused         = "ActivationRefused"         // a policy activates a workload in a namespace in which /scale may not be written
	ReasonAnotherRelease            = "AnotherRelease"            // another release overrides a NodePool of ours: this one does not lead
	ReasonAPIServiceConflict        = "APIServiceConflict"        // somebody else serves external metrics in our place
	ReasonAPIServiceOccupied        = "APIServiceOccupied"        // mode owner, but it belongs to somebody else
	ReasonAPIServiceTaken           = "APIServiceRegistered"      // the API server asks us for external metrics
)

const (
	eventQueue   = 1000 // Events are for people: what does not fit is counted and left out
	eventsAtOnce = 100
	eventsPerSec = 10
	eventTimeout = 5 * time.Second
	maxNote      = 1024 // bytes; the API server refuses more
	maxInstance  = 128  // the same of the reporting instance
)

// recorder posts Events. It is not client-go's, which joins Events of one reason into a series that keeps the first one's note:
// "6 -> 9" would stand there while the target goes on to 12.
type recorder struct {
	client   typedevents.EventsV1Interface
	instance string
	cluster  func() string // the cluster's name; nil or empty: it has none
	queue    chan *eventsv1.Event
	limit    flowcontrol.RateLimiter
	log      *slog.Logger
	metrics  *metrics
}

func newRecorder(client typedevents.EventsV1Interface, instance string, log *slog.Logger, m *metrics) *recorder {
	if instance == "" {
		instance = "gpuscaler" // the API server refuses an Event without one
	}
	if len(instance) > maxInstance {
		instance = instance[len(instance)-maxInstance:] // the end of a pod's name is what differs
	}
	return &recorder{
		client: client, instance: instance, log: log, metrics: m,
		queue: make(chan *eventsv1.Event, eventQueue),
		limit: flowcontrol.NewTokenBucketRateLimiter(eventsPerSec, eventsAtOnce),
	}
}

// send queues an Event and never waits. kind is corev1.EventTypeNormal or EventTypeWarning.
func (r *recorder) send(about corev1.ObjectReference, kind, reason, note string) {
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // where Events about cluster-scoped objects live
	}
	note = printable.Clean(note)
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "")
	}
	now := time.Now() // I/O edge: an Event carries the time at which it was sent
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: eventName(about.Name, now), Namespace: namespace},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: reportingController,
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
	select {
	case r.queue <- event:
	default:
		r.metrics.eventsLost.Inc()
	}
}

// eventName is the object's name with the time behind it, within the length of a name.
func eventName(about string, now time.Time) string {
	suffix := fmt.Sprintf(".%x", now.UnixNano())
	if most := validation.DNS1123SubdomainMaxLength - len(suffix); len(about) > most {
		about = strings.TrimRight(about[:most], "-.")
	}
	return about + suffix
}

func (r *recorder) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-r.queue:
			if r.limit.Wait(ctx) != nil {
				return
			}
			r.post(ctx, event)
		}
	}
}

func (r *recorder) post(ctx context.Context, event *eventsv1.Event) {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	_, err := r.client.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // nobody will read it
	default:
		r.metrics.eventsLost.Inc()
		r.log.Warn("an Event was not written", "reason", event.Reason, "object", event.Regarding.Name, "error", err)
	}
}
