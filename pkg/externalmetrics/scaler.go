package externalmetrics

import (
	"context"
	"errors"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// PolicyMetadata is the key in the trigger's metadata whose value is the name of the policy. Without it, the policy has the name of the
// ScaledObject.
const PolicyMetadata = "policy"

const (
	// pushInterval is the interval at which a push stream reads the decision. KEDA receives a change within this time.
	pushInterval = 250 * time.Millisecond
	// repeatInterval is the interval at which `true` is repeated after a workload became active, and repeats is the number of repetitions.
	// KEDA acts on each `true`. If KEDA's operator restarts and loses a `true`, KEDA would act only at its next poll without the repetitions.
	// After the repetitions, `true` is sent every keepAliveInterval, so that KEDA's cooldown does not end before the next poll of a trigger
	// with a long polling interval. `true` is not sent more often, because KEDA writes the status of the ScaledObject for each `true`.
	repeatInterval, repeats, keepAliveInterval = 15 * time.Second, 4, time.Minute
	// specsPause is the delay before lost specs are sent again. KEDA reconciles the ScaledObject after each send, so all requests for specs
	// in this time cause only one send.
	specsPause = 2 * time.Second
)

// Scaler is the external scaler for KEDA. KEDA's operator calls it without a deadline and with a lock, so Scaler responds to each call from
// memory. If no target may be used, the response is an error with codes.Unavailable. KEDA handles this error as a failed trigger, which
// never decreases the replicas.
type Scaler struct {
	externalscaler.UnimplementedExternalScalerServer
	decisions Decisions
	clock     func() time.Time
	lost      lostSpecs
}

// NewScaler returns a scaler of the given decisions. clock returns the current time.
func NewScaler(d Decisions, clock func() time.Time) *Scaler {
	return &Scaler{decisions: d, clock: clock}
}

func (s *Scaler) lookup(ref *externalscaler.ScaledObjectRef) (engine.Served, error) {
	key := scaling.Key{Namespace: ref.GetNamespace(), Name: ref.GetName()}
	if name := ref.GetScalerMetadata()[PolicyMetadata]; name != "" {
		key.Name = name
	}
	served, err := engine.LookupNow(s.decisions, key, s.clock)
	switch {
	case errors.Is(err, engine.ErrUnknown):
		return served, status.Errorf(codes.NotFound, "no policy %s: define it with annotations of the ScaledObject, or name one with `%s` in "+
			"the trigger's metadata", key, PolicyMetadata)
	case err != nil:
		return served, status.Errorf(codes.Unavailable, "policy %s: %v", key, err)
	}
	return served, nil
}

var specs = &externalscaler.GetMetricSpecResponse{MetricSpecs: []*externalscaler.MetricSpec{{
	MetricName: MetricName, TargetSize: 1, TargetSizeFloat: 1, // KEDA up to 2.16 reads only the integer TargetSize
}}}

// GetMetricSpec returns the name of the metric and its target value, 1 per replica, for every policy. The value of the metric is the number
// of replicas, so the HPA computes this number as its desired replicas.
func (s *Scaler) GetMetricSpec(_ context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.GetMetricSpecResponse, error) {
	s.lost.notify(ref)
	return specs, nil
}

type (
	specStream   = grpc.ServerStreamingServer[externalscaler.GetMetricSpecResponse]
	activeStream = grpc.ServerStreamingServer[externalscaler.IsActiveResponse]
)

// StreamMetricSpec sends the specs when the stream opens. It repeats them when KEDA calls GetMetricSpec, because KEDA has then lost the
// streamed specs. The specs never change. With streamed specs, KEDA makes one call less in each HPA sync, and it has the specs while
// gpuscaler is unavailable. If KEDA has no spec for one trigger, it returns an error for every metric of the ScaledObject. Then the other
// triggers cannot scale either, for example the trigger on a queue that scales the workload while gpuscaler is unavailable (see package
// migrate).
func (s *Scaler) StreamMetricSpec(ref *externalscaler.ScaledObjectRef, stream specStream) error {
	again, forget := s.lost.listen(ref)
	defer forget()
	for {
		if err := stream.Send(specs); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-again:
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-time.After(specsPause): // may use the clock: paces retries
		}
	}
}

// GetMetrics returns the target replicas.
func (s *Scaler) GetMetrics(_ context.Context, r *externalscaler.GetMetricsRequest) (*externalscaler.GetMetricsResponse, error) {
	served, err := s.lookup(r.GetScaledObjectRef())
	if err != nil {
		return nil, err
	}
	return &externalscaler.GetMetricsResponse{MetricValues: []*externalscaler.MetricValue{{
		MetricName: MetricName, MetricValue: int64(served.Replicas), MetricValueFloat: float64(served.Replicas),
	}}}, nil
}

// IsActive reports whether the target is at least one replica.
func (s *Scaler) IsActive(_ context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.IsActiveResponse, error) {
	served, err := s.lookup(ref)
	if err != nil {
		return nil, err
	}
	return &externalscaler.IsActiveResponse{Result: served.Replicas > 0}, nil
}

// StreamIsActive sends whether the workload is active: when the stream opens and after each change. While the workload stays active, it
// repeats `true` after 15, 30, 45 and 60 seconds and then once a minute. It sends nothing while no target may be served, so that KEDA keeps
// its last state.
func (s *Scaler) StreamIsActive(ref *externalscaler.ScaledObjectRef, stream activeStream) error {
	look, repeat := time.NewTicker(pushInterval), time.NewTicker(repeatInterval) // may use the clock: paces pushes
	defer look.Stop()
	defer repeat.Stop()
	sent, last, again := false, false, 0
	for {
		if served, err := s.lookup(ref); err == nil {
			if active := served.Replicas > 0; !sent || active != last {
				if again++; active != last {
					again = 0
				}
				if err := stream.Send(&externalscaler.IsActiveResponse{Result: active}); err != nil {
					return err
				}
				sent, last = true, active
				repeat.Reset(pause(again))
			}
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-repeat.C:
			sent = sent && !last // if the last sent state is active, it is sent once more
		case <-look.C:
		}
	}
}

// pause returns the time until the next repetition of `true`. again is the number of repetitions that were sent.
func pause(again int) time.Duration {
	if again < repeats {
		return repeatInterval
	}
	return keepAliveInterval
}
