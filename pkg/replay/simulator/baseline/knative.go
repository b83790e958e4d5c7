package baseline

import (
	"math"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
)

// Knative is Knative Serving's autoscaler (KPA) with the concurrency metric, which counts the requests in the replicas and in the queue.
// Times and a PanicThreshold of 0 mean the defaults in Knative's ConfigMap config-autoscaler. The computation is the same as in Knative's
// pkg/autoscaler/scaling/autoscaler.go.
type Knative struct {
	Min, Max       int32
	Target         float64       // concurrency per replica: container concurrency times target utilization
	StableWindow   time.Duration // 0 means 60 s
	PanicThreshold float64       // multiple of the ready replicas at which a panic starts; 0 means 2, which is 200%
	ScaleDownDelay time.Duration
}

const (
	knativeTick        = 2 * time.Second
	knativeScrape      = time.Second
	knativeGrace       = 30 * time.Second // scale-to-zero-grace-period
	knativeScaleUp     = 1000             // max-scale-up-rate
	knativeScaleDown   = 2                // max-scale-down-rate
	knativePanicShare  = 10               // the stable window is this many times as long as the panic window
	knativeStable      = time.Minute
	knativePanicExceed = 2
)

// NewActuator returns a new actuator. It replaces settings of 0 by Knative's defaults. As a method value it is an autoscaler.Factory.
func (k Knative) NewActuator() autoscaler.Actuator {
	if k.StableWindow == 0 {
		k.StableWindow = knativeStable
	}
	if k.PanicThreshold == 0 {
		k.PanicThreshold = knativePanicExceed
	}
	return &kpa{config: k, stable: newMoving(k.StableWindow), panicked: newMoving(k.StableWindow / knativePanicShare)}
}

// moving is the mean of the newest samples, one per second.
type moving struct {
	samples []float64
	next    int
	n       int
}

func newMoving(window time.Duration) moving {
	return moving{samples: make([]float64, max(1, window/knativeScrape))}
}

func (m *moving) add(v float64) {
	m.samples[m.next] = v
	m.next = (m.next + 1) % len(m.samples)
	m.n = min(m.n+1, len(m.samples))
}

func (m *moving) mean() float64 {
	sum := 0.0
	for _, v := range m.samples[:m.n] {
		sum += v
	}
	return sum / math.Max(1, float64(m.n))
}

type kpa struct {
	config           Knative
	stable, panicked moving
	decide           time.Time
	begun            bool
	panicAt          time.Time // time of the last panic; zero: no panic
	most             int32     // highest proposal since the panic started
	idleAt           time.Time // start of the time without demand; zero: there is demand
	delayed          []kpaAsk
}

type kpaAsk struct {
	at time.Time
	n  int32
}

// Act takes a sample each second and decides after every second sample. At zero replicas, the activator requests the first replica
// immediately.
func (k *kpa) Act(s *autoscaler.Scene) autoscaler.Move {
	m := autoscaler.Move{Replicas: s.Spec, Asked: s.Asked, Idle: s.Idle, Again: knativeScrape}
	if s.Faulty() {
		return m
	}
	concurrency := float64(s.Concurrency)
	k.stable.add(concurrency)
	k.panicked.add(concurrency)
	if !k.begun {
		k.begun = true
		if s.Ready > 1 { // after a restart, Knative's autoscaler keeps the current replicas for one stable window
			k.panicAt, k.most = s.Now, s.Ready
		}
	}
	if s.Now.Before(k.decide) && (s.Spec > 0 || concurrency == 0) {
		return m
	}
	k.decide = s.Now.Add(knativeTick)
	asked := k.scale(s.Now, s.Ready, k.stable.mean(), k.panicked.mean())
	m.Replicas, m.Asked, m.Idle = k.bounded(s, asked), asked, ledger.Cooldown
	if m.Replicas <= k.config.Min {
		m.Idle = ledger.Minimum
	}
	return m
}

// scale implements the function Scale of Knative's autoscaler. It returns the proposal of the stable window, or in a panic the highest
// proposal since the panic started.
func (k *kpa) scale(now time.Time, ready int32, stable, panicked float64) int32 {
	pods := math.Max(1, float64(ready))
	most, least := math.Ceil(knativeScaleUp*pods), math.Floor(pods/knativeScaleDown)
	desired := func(v float64) float64 { return math.Ceil(v / k.config.Target) }
	clip := func(v float64) int32 { return int32(math.Min(math.Max(v, least), most)) }
	switch over := desired(panicked)/pods >= k.config.PanicThreshold; {
	case over:
		k.panicAt = now
	case !k.panicAt.IsZero() && k.panicAt.Add(k.config.StableWindow).Before(now):
		k.panicAt, k.most = time.Time{}, 0
	}
	n := clip(desired(stable))
	if !k.panicAt.IsZero() {
		k.most = max(k.most, n, clip(desired(panicked)))
		n = k.most
	}
	return k.delay(now, n)
}

// delay implements scale-down-delay. It returns the highest proposal of the last ScaleDownDelay.
func (k *kpa) delay(now time.Time, n int32) int32 {
	if k.config.ScaleDownDelay == 0 {
		return n
	}
	k.delayed = slices.DeleteFunc(k.delayed, func(a kpaAsk) bool { return !a.at.Add(k.config.ScaleDownDelay).After(now) || a.n <= n })
	k.delayed = append(k.delayed, kpaAsk{now, n})
	return k.delayed[0].n
}

// bounded applies min-scale and max-scale. The last replica is removed a grace period after demand ends.
func (k *kpa) bounded(s *autoscaler.Scene, n int32) int32 {
	if n > 0 {
		k.idleAt = time.Time{}
	} else {
		if k.idleAt.IsZero() {
			k.idleAt = s.Now
		}
		if s.Spec > 0 && s.Now.Sub(k.idleAt) < knativeGrace {
			n = 1
		}
	}
	return max(k.config.Min, min(n, k.config.Max))
}
