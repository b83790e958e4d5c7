package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// hostileObject returns an HPA with one annotation. The API server accepts annotations of up to 256 KiB.
func hostileObject(annotation, text string) Object {
	return Object{Kind: "HorizontalPodAutoscaler", Namespace: "team", Name: "chat", MinReplicas: 1, MaxReplicas: 3,
		Target:      scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "chat"},
		Annotations: map[string]string{"gpuscaler.io/" + annotation: text}}
}

// A tenant can change an annotation of 256 KiB many times a second. While it is compiled, all other objects wait, and each problem is
// logged and sent as an Event. The number of problems must therefore be limited.
func TestAnnotationWithThousandsOfMistakesHasFewProblems(t *testing.T) {
	lines := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < 250<<10; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, o := range map[string]Object{
		"lines that are no schedules": hostileObject("schedule", lines("a%d\n")),
		"schedules":                   hostileObject("schedule", lines("a%d UTC a b\n")),
		"fields that do not exist":    hostileObject("spec", lines("a%d: x\n")),
		"signals without a target":    hostileObject("spec", "signals:\n"+lines("- {name: a%d}\n")),
		"labels that are not text": hostileObject("spec",
			"signals:\n- name: a\n  type: prometheus\n  matchLabels:\n"+lines("    a%d: 1\n")),
		"one signal, ten thousand times": hostileObject("spec", "signals:\n"+lines("- {name: a, type: redis} #%d\n")),
		"complete signals":               hostileObject("spec", "signals:\n"+lines("- {name: a%d, type: dcgm, target: 70}\n")),
		"schedules in the spec": hostileObject("spec",
			"schedules:\n"+lines("- {name: a%d, timezone: UTC, start: 0 8 * * *, end: 0 9 * * *}\n")),
	} {
		s := New(Options{})
		began := time.Now()
		problems := s.SetObject(o)
		if n, took := len(problems), time.Since(began); n < 1 || n > 101 || took > time.Minute {
			t.Errorf("%s: %d problems in %s, want 1 to 101 in less than a minute", name, n, took)
		}
		if policy.Errors(problems) == 0 || s.Find(scaling.Key{Namespace: "team", Name: "chat"}) != nil {
			t.Errorf("%s: the policy is in force", name)
		}
	}
}
