// Package record records how targets and replicas change during a test, so that the test can check every change afterwards. The targets are
// read from gpuscaler's log. The replicas of the HPA and the Deployment are recorded by a watch.
package record

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// Step is one value of a number of replicas, with the time at which the number changed to this value.
type Step struct {
	At time.Time
	N  int32
}

// Steps lists the changes of a number of replicas, oldest first. Consecutive steps have different values.
type Steps []Step

func (s Steps) String() string {
	var b strings.Builder
	for i, step := range s {
		if i > 0 {
			b.WriteString(" -> ")
		}
		fmt.Fprintf(&b, "%d@%s", step.N, step.At.Format("05.000"))
	}
	return b.String()
}

// add appends a step unless the last step has the same value.
func (s Steps) add(at time.Time, n int32) Steps {
	if len(s) > 0 && s[len(s)-1].N == n {
		return s
	}
	return append(s, Step{at, n})
}

// At returns the value that the number of replicas had at a time. ok is false for a time before the first step.
func (s Steps) At(at time.Time) (n int32, ok bool) {
	for _, step := range s {
		if step.At.After(at) {
			break
		}
		n, ok = step.N, true
	}
	return n, ok
}

// Between returns the values that the number of replicas had between two times, oldest first.
func (s Steps) Between(from, until time.Time) (numbers []int32) {
	if n, ok := s.At(from); ok {
		numbers = append(numbers, n)
	}
	for _, step := range s {
		if step.At.After(from) && !step.At.After(until) {
			numbers = append(numbers, step.N)
		}
	}
	return numbers
}

// Numbers returns the values without their times.
func (s Steps) Numbers() []int32 {
	var numbers []int32
	for _, step := range s {
		numbers = append(numbers, step.N)
	}
	return numbers
}

// Since returns the steps from the given time on. The first step has the value at that time.
func (s Steps) Since(at time.Time) (rest Steps) {
	if n, ok := s.At(at); ok {
		rest = Steps{{at, n}}
	}
	for _, step := range s {
		if step.At.After(at) {
			rest = rest.add(step.At, step.N)
		}
	}
	return rest
}

// Fall returns the first step that decreases the value, or nil if there is none.
func (s Steps) Fall() *Step {
	for i := range s {
		if i > 0 && s[i].N < s[i-1].N {
			return &s[i]
		}
	}
	return nil
}

// Watched records the values of one field of an object, such as spec.replicas, by a watch.
type Watched struct {
	mu    sync.Mutex
	steps Steps
	err   error
}

// Steps returns the values that were recorded so far. An error means that the watch was interrupted, so that values may be missing.
func (w *Watched) Steps() (Steps, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.steps), w.err
}

// HPA records the status.desiredReplicas of an HPA until ctx ends.
func HPA(ctx context.Context, c client.WithWatch, namespace, name string) (*Watched, error) {
	return follow(ctx, c, &autoscalingv2.HorizontalPodAutoscalerList{}, namespace, func(o runtime.Object) (int32, bool) {
		h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
		if !ok || h.Name != name {
			return 0, false
		}
		return h.Status.DesiredReplicas, true
	})
}

// Deployment records the spec.replicas of a Deployment until ctx ends.
func Deployment(ctx context.Context, c client.WithWatch, namespace, name string) (*Watched, error) {
	return follow(ctx, c, &appsv1.DeploymentList{}, namespace, func(o runtime.Object) (int32, bool) {
		d, ok := o.(*appsv1.Deployment)
		if !ok || d.Name != name || d.Spec.Replicas == nil {
			return 0, false
		}
		return *d.Spec.Replicas, true
	})
}

// Status records status.replicas of a Deployment until ctx ends.
func Status(ctx context.Context, c client.WithWatch, namespace, name string) (*Watched, error) {
	return follow(ctx, c, &appsv1.DeploymentList{}, namespace, func(o runtime.Object) (int32, bool) {
		d, ok := o.(*appsv1.Deployment)
		if !ok || d.Name != name {
			return 0, false
		}
		return d.Status.Replicas, true
	})
}

func follow(ctx context.Context, c client.WithWatch, list client.ObjectList, namespace string,
	number func(runtime.Object) (int32, bool)) (*Watched, error) {
	events, err := c.Watch(ctx, list, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	w := &Watched{}
	go func() {
		defer events.Stop()
		for e := range events.ResultChan() {
			if n, ok := number(e.Object); ok {
				w.mu.Lock()
				w.steps = w.steps.add(time.Now(), n)
				w.mu.Unlock()
			}
		}
		if ctx.Err() == nil {
			w.mu.Lock()
			w.err = fmt.Errorf("the watch of %s ended", namespace)
			w.mu.Unlock()
		}
	}()
	return w, nil
}

// Transitions reads the log files that match a glob pattern and returns the explanations of one policy, oldest first. The files of several
// replicas can match, because the leader may change during a test.
func Transitions(pattern, policy string) (all []explain.Explanation, err error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		found, err := transitions(file, policy)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b explain.Explanation) int { return a.At.Compare(b.At) })
	return all, nil
}

func transitions(file, policy string) (found []explain.Explanation, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var entry struct {
			Explanation explain.Explanation `json:"explanation"`
		}
		// Lines of libraries, and the incomplete last line of a running process, contain no explanation of the policy.
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Explanation.Policy == policy {
			found = append(found, entry.Explanation)
		}
	}
	return found, lines.Err()
}

// Targets returns the targets in the given explanations as steps.
func Targets(all []explain.Explanation) (s Steps) {
	for _, e := range all {
		s = s.add(e.At, e.Target)
	}
	return s
}
