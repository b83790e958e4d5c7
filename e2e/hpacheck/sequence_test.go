package hpacheck

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"

	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	runs       = 200
	syncsOfRun = 100 // number of syncs in one run, which are at least 25 minutes of simulated time
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	utilruntime.ErrorHandlers = nil // the default handlers sleep and use the real clock
	os.Exit(m.Run())
}

// play runs Kubernetes' HorizontalController with its queue and informers on a simulated clock, until it has synced the HPA `syncs` times.
func play(s *stage, object *autoscalingv2.HorizontalPodAutoscaler, syncs int) {
	for i, m := range s.metrics {
		object.Spec.Metrics = append(object.Spec.Metrics, m.spec(i))
	}
	ctx, cancel := context.WithCancel(context.Background())
	client := fake.NewClientset(object)
	// The fake client discards writes of Events and of the HPA, because storing them would take longer than the controller's own work.
	for resource, object := range map[string]runtime.Object{"events": &v1.Event{}, "horizontalpodautoscalers": object} {
		client.PrependReactor("*", resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
			return slices.Contains([]string{"create", "patch", "update"}, a.GetVerb()), object, nil
		})
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods()
	s.pods = pods.Informer().GetIndexer()
	controller := podautoscaler.NewHorizontalController(ctx, client.CoreV1(), s, client.AutoscalingV2(),
		testrestmapper.TestOnlyStaticRESTMapper(scheme.Scheme),
		s, factory.Autoscaling().V2().HorizontalPodAutoscalers(), pods, hpa.SyncPeriod, hpa.DownscaleStabilization, 0.1,
		5*time.Minute, 30*time.Second)
	factory.Start(ctx.Done())
	done := make(chan struct{})
	go func() { controller.Run(ctx, 1); close(done) }()
	for len(s.looks) < syncs {
		time.Sleep(hpa.SyncPeriod)
		synctest.Wait() // wait until the sync has ended
	}
	cancel()
	<-done
	factory.Shutdown()
}

// replay runs the simulator's HPA controller with the inputs that Kubernetes' controller had, at the same times. wrote contains the
// replicas after each sync. other is the index of the first sync after which they differ from the replicas that Kubernetes wrote, or -1.
func replay(spec *hpa.Spec, s *stage, start int32, check func(hpa.Verdict)) (other int, wrote []int32) {
	var c hpa.Controller
	current, other := start, -1
	for i := range s.looks {
		l := &s.looks[i]
		if l.edit >= 0 {
			current = l.edit
		}
		var verdict hpa.Verdict
		current, verdict = c.Sync(spec, l.at, current, l.proposals(s.metrics, current, spec.Tolerances()))
		check(verdict)
		if wrote = append(wrote, current); current != l.wrote && other < 0 {
			other = i
		}
	}
	return other, wrote
}

// TestSequenceMatchesKubernetesController compares spec.replicas after every sync of random HPAs with one or two metrics. The replay must
// write the same value as Kubernetes.
func TestSequenceMatchesKubernetesController(t *testing.T) {
	verdicts, up, down, syncs := map[hpa.Verdict]int{}, 0, 0, 0
	for run := range runs {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(5, uint64(run)))
				spec, object := drawSpec(r)
				s := &stage{Rand: r, max: spec.Max, spec: 1 + r.Int32N(spec.Max), late: []time.Duration{0, 0, 3 * time.Second, time.Minute}[r.IntN(4)]}
				for range 1 + r.IntN(2) {
					s.metrics = append(s.metrics, metric{kind: kind(r.IntN(int(kinds))) * kind(r.IntN(2)), target: int64(1 + r.IntN(3000))})
				}
				before := s.spec
				play(s, object, syncsOfRun)
				if i, wrote := replay(&spec, s, before, func(v hpa.Verdict) { verdicts[v]++ }); i >= 0 {
					t.Fatalf("sync %d: the replay wrote %d, Kubernetes %d\n%+v\n%+v", i, wrote[i], s.looks[i].wrote, spec, s.looks[i])
				}
				for _, l := range s.looks {
					if l.edit >= 0 {
						before = l.edit
					}
					switch syncs++; {
					case l.wrote > before:
						up++
					case l.wrote < before:
						down++
					}
					before = l.wrote
				}
			})
		})
	}
	t.Logf("%d syncs of %d HPAs: %d increases, %d decreases; %d decided on metrics, %d at zero, %d out of bounds, %d without metrics", syncs,
		runs, up, down,
		verdicts[hpa.Scaled], verdicts[hpa.Disabled], verdicts[hpa.Bounded], verdicts[hpa.Failed])
	if min(up, down) < syncs/50 || min(verdicts[hpa.Disabled], verdicts[hpa.Bounded], verdicts[hpa.Failed]) < syncs/200 {
		t.Error("too few changes, so the test proves nothing")
	}
}

// TestAnotherBehaviorIsAnotherSequence checks that the comparison can fail: a change of any part of the behavior must lead to a different
// sequence of replicas.
func TestAnotherBehaviorIsAnotherSequence(t *testing.T) {
	for name, change := range map[string]func(*hpa.Behavior){
		"no tolerance on the way up":       func(b *hpa.Behavior) { b.Up.Tolerance = 0 },
		"no tolerance on the way down":     func(b *hpa.Behavior) { b.Down.Tolerance = 0 },
		"no window on the way up":          func(b *hpa.Behavior) { b.Up.StabilizationWindow = 0 },
		"a window longer by one sync":      func(b *hpa.Behavior) { b.Down.StabilizationWindow += hpa.SyncPeriod },
		"a period longer by one sync":      func(b *hpa.Behavior) { b.Up.Rates[0].Period += hpa.SyncPeriod },
		"one replica more per period":      func(b *hpa.Behavior) { b.Up.Rates[0].Value++ },
		"one replica less per period":      func(b *hpa.Behavior) { b.Down.Rates[0].Value-- },
		"the other policy of a decrease":   func(b *hpa.Behavior) { b.Down.Select = scaling.SelectMin },
		"a shorter period on the way down": func(b *hpa.Behavior) { b.Down.Rates[1].Period -= hpa.SyncPeriod },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spec, object := steady()
				s := &stage{Rand: rand.New(rand.NewPCG(7, 8)), max: spec.Max, spec: 10, metrics: []metric{{target: 1000}}}
				play(s, object, 300)
				silent := func(hpa.Verdict) {}
				if i, _ := replay(&spec, s, 10, silent); i >= 0 {
					t.Fatalf("the behavior is unchanged, but sync %d differs", i)
				}
				change(spec.Behavior)
				i, _ := replay(&spec, s, 10, silent)
				if t.Log("first difference in sync", i); i < 0 {
					t.Error("no sync differs")
				}
			})
		})
	}
}
