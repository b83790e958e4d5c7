package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
)

// withFallback returns an HPA that follows its policy exactly, but for a fallback of our metric.
func withFallback(t *testing.T, replicas int64) *unstructured.Unstructured {
	t.Helper()
	u := unstructuredHPA(t, exactHPA("chat", "chat", "chat"))
	metrics, _, _ := unstructured.NestedSlice(u.Object, "spec", "metrics")
	external := metrics[0].(map[string]any)["external"].(map[string]any)
	external["fallback"] = map[string]any{"failureDurationSeconds": int64(180), "replicas": replicas}
	if err := unstructured.SetNestedSlice(u.Object, metrics, "spec", "metrics"); err != nil {
		t.Fatal(err)
	}
	return u
}

func fallbackFindings(found []ObjectFinding) (out []string) {
	for _, f := range found {
		if f.What == FallbackScalesDown {
			out = append(out, f.Object)
			if !f.Grave {
				out = append(out, "not grave")
			}
		}
	}
	return out
}

// While no target is served, in mode hold or in an outage, the HPA uses the fallback: 3 replicas of 12 are a scale-down.
func TestAFallbackBelowMaxReplicasIsFoundInAClusterAndInFiles(t *testing.T) {
	max := int64(exactHPA("chat", "chat", "chat").Spec.MaxReplicas)
	for _, c := range []struct {
		replicas int64
		want     string
	}{{1, "HorizontalPodAutoscaler team/chat"}, {max - 1, "HorizontalPodAutoscaler team/chat"}, {max, ""}, {0, "HorizontalPodAutoscaler team/chat"}} {
		u := withFallback(t, c.replicas)
		live := strings.Join(fallbackFindings(surveyOf(t, "36", u.DeepCopy()).Judge(nil, false, nil)), ",")
		files := &Survey{}
		if err := files.Add(u); err != nil {
			t.Fatal(err)
		}
		offline := strings.Join(fallbackFindings(files.Judge(nil, false, nil)), ",")
		if live != c.want || offline != c.want {
			t.Errorf("fallback.replicas %d: live %q, files %q, want %q", c.replicas, live, offline, c.want)
		}
	}
	if found := fallbackFindings(surveyOf(t, "36", unstructuredHPA(t, exactHPA("chat", "chat", "chat"))).Judge(nil, false, nil)); len(found) > 0 {
		t.Errorf("an HPA without a fallback: %v", found)
	}
}

func TestTheControllerReportsAFallbackOnceTheAPIServerHasTheField(t *testing.T) {
	c := told(t)
	c.world.putHPA(nil, must(trimHPA(exactHPA("chat", "chat", "chat"))).(*hpaFacts))
	lists := map[schema.GroupVersionResource]string{hpasResource: "HorizontalPodAutoscalerList"}
	served, failing := false, false
	r := &fallbackReader{objects: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, withFallback(t, 1)), served: func() (bool, error) {
		if failing {
			return false, errors.New("no answer")
		}
		return served, nil
	}}
	l := &linter{cluster: c, told: map[complaint]time.Time{}}
	at := night
	round := func(after time.Duration) string {
		at = at.Add(after)
		l.readFallbacks(context.Background(), r, at)
		l.round(at)
		return strings.Join(notes(c), "\n")
	}
	if got := round(0); got != "" {
		t.Errorf("the API server does not have the field, and reported is %s", got)
	}
	served = true
	if got := round(time.Minute); got != "" {
		t.Errorf("the schema is read once an hour, and reported is %s", got)
	}
	if got := round(time.Hour); !strings.HasPrefix(got, events.HPAMisconfigured) || !strings.Contains(got, "fallback.replicas 1") {
		t.Errorf("reported is %q", got)
	}
	failing = true
	if round(time.Hour); len(l.told) != 1 {
		t.Errorf("a failed request makes the finding go away: %v", l.told)
	}
}

func TestTheSchemaShowsWhetherTheFieldIsServed(t *testing.T) {
	for text, want := range map[string]bool{
		`{"components":{"schemas":{"io.k8s.api.autoscaling.v2.ExternalMetricSource":{"properties":{"metric":{},"target":{}}}}}}`:               false,
		`{"components":{"schemas":{"io.k8s.api.autoscaling.v2.ExternalMetricSource":{"properties":{"metric":{},"target":{},"fallback":{}}}}}}`: true,
		`{}`: false,
	} {
		if got, err := hasFallback([]byte(text)); got != want || err != nil {
			t.Errorf("%s: %t, %v", text, got, err)
		}
	}
}
