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

// PolicyMetadata is the key of a trigger's metadata that names the policy; without it the policy has the ScaledObject's name.
const PolicyMetadata = "policy"

const (
	// pushEvery is how often a stream looks at the board: a tick's outcome reaches KEDA within a quarter of a second.
	pushEvery = 250 * time.Millisecond
	// repeatEvery is how soon an active workload is told again, repeats times after each change: KEDA acts on each `true`, and one that
	// was lost while the operator restarted would else wait for its polling interval. From then on it is told each keepEvery, so that a
	// long polling interval does not eat the cooldown. Not more often: KEDA answers each `true` with a write of the object's status, and a
	// thousand active ones told every 15 s were more than its API server could take beside everything else.
	repeatEvery, repeats, keepEvery = 15 * time.Second, 4, time.Minute
	// specsPause gathers KEDA's questions into one more send of specs: each send makes it reconcile the ScaledObject.
	specsPause = 2 * time.Second
)

// Scaler is KEDA's external scaler over the board. KEDA's calls carry no deadline and hold locks of its own, so each is answered from
// memory. A number that must not be used is codes.Unavailable, which KEDA treats as a failed trigger: nothing falls on it.
type Scaler struct {
	externalscaler.UnimplementedExternalScalerServer
	decisions Decisions
	clock     func() time.Time
	lost      lostSpecs
}

// NewScaler returns the scaler; clock is the process's clock.
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
		return served, status.Errorf(codes.NotFound, "no policy %s: write it as annotations of the ScaledObject, or name one with `%s` in the trigger's metadata", key, PolicyMetadata)
	case err != nil:
		return served, status.Errorf(codes.Unavailable, "policy %s: %v", key, err)
	}
	return served, nil
}

var specs = &externalscaler.GetMetricSpecResponse{MetricSpecs: []*externalscaler.MetricSpec{{
	MetricName: MetricName, TargetSize: 1, TargetSizeFloat: 1, // KEDA before 2.15 reads the whole number
}}}

// GetMetricSpec names the one metric. Its target is one replica for each unit, whatever the policy.
func (s *Scaler) GetMetricSpec(_ context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.GetMetricSpecResponse, error) {
	s.lost.tell(ref)
	return specs, nil
}

// StreamMetricSpec sends the specs when the stream opens and whenever KEDA shows that it has lost them; they never change. With
// streamed specs KEDA asks one call less in each HPA sync, and, more important, still knows our metric while we are away: a trigger
// without a spec makes it refuse every metric of the ScaledObject, the mirror that should raise meanwhile too.
func (s *Scaler) StreamMetricSpec(ref *externalscaler.ScaledObjectRef, stream grpc.ServerStreamingServer[externalscaler.GetMetricSpecResponse]) error {
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
		case <-time.After(specsPause): // I/O edge: paces retries
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

// IsActive reports whether at least one replica is wanted.
func (s *Scaler) IsActive(_ context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.IsActiveResponse, error) {
	served, err := s.lookup(ref)
	if err != nil {
		return nil, err
	}
	return &externalscaler.IsActiveResponse{Result: served.Replicas > 0}, nil
}

// StreamIsActive sends the state when the stream opens, on each change, and `true` again while the workload stays active: after 15, 30, 45
// and 60 seconds, then once a minute. While there is no number to serve nothing is sent: KEDA keeps what it knows.
func (s *Scaler) StreamIsActive(ref *externalscaler.ScaledObjectRef, stream grpc.ServerStreamingServer[externalscaler.IsActiveResponse]) error {
	look, repeat := time.NewTicker(pushEvery), time.NewTicker(repeatEvery) // I/O edge: paces pushes
	defer look.Stop()
	defer repeat.Stop()
	told, last, again := false, false, 0
	for {
		if served, err := s.lookup(ref); err == nil {
			if active := served.Replicas > 0; !told || active != last {
				if again++; active != last {
					again = 0
				}
				if err := stream.Send(&externalscaler.IsActiveResponse{Result: active}); err != nil {
					return err
				}
				told, last = true, active
				repeat.Reset(pause(again))
			}
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-repeat.C:
			told = told && !last // an active one is told again at once
		case <-look.C:
		}
	}
}

// pause is how long an active workload is not told again, after so many repetitions.
func pause(again int) time.Duration {
	if again < repeats {
		return repeatEvery
	}
	return keepEvery
}
