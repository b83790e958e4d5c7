package migrate

import (
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func TestManifestsOfTheExamples(t *testing.T) {
	so := read(t, "embed-scaledobject.yaml")
	triggers, err := Triggers(so)
	if err != nil {
		t.Fatal(err)
	}
	for file, c := range map[string]struct {
		policy string
		o      Options
	}{
		"chat.scaledobject.yaml":               {"team-chat/llama-chat", Options{Authentication: "gpuscaler"}},
		"chat.formula.scaledobject.yaml":       {"team-chat/llama-chat", Options{Formula: true}},
		"chat.bare.scaledobject.yaml":          {"team-chat/llama-chat", Options{NoMirror: true, ScalerAddress: "127.0.0.1:9090"}},
		"embed.scaledobject.yaml":              {"team-embed/embed-worker", Options{Triggers: triggers}},
		"images.scaledobject.yaml":             {"team-embed/embed-images", Options{}},
		"transcribe.scaledobject.yaml":         {"team-embed/transcribe", Options{}},
		"transcribe.formula.scaledobject.yaml": {"team-embed/transcribe", Options{Formula: true}},
	} {
		p, platform := example(t, c.policy)
		got, err := ScaledObject(p, platform, c.o)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		golden.Compare(t, "testdata/"+file, got)
	}
	chat, _ := example(t, "team-chat/llama-chat")
	got, err := HPA(chat)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/chat.hpa.yaml", got)
	var h autoscalingv2.HorizontalPodAutoscaler
	if err := yaml.UnmarshalStrict([]byte(got), &h); err != nil {
		t.Errorf("the manifest is not valid: %v", err)
	}
}

// The fallback must not be 0 replicas, because KEDA would then scale to zero at the first error.
func TestFallbackIsNeverZero(t *testing.T) {
	for least, want := range map[int32]int32{0: 1, 1: 1, 3: 3} {
		for mirror, threshold := range map[bool]int{true: 0, false: 3} {
			if f := *fallbackOf(least, mirror); f != (fallback{threshold, want, "currentReplicasIfHigher"}) {
				t.Errorf("minReplicas %d, mirror %t: %+v", least, mirror, f)
			}
		}
	}
}

func TestManifestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		policy string
		o      Options
		want   string
	}{
		"a keda signal without its ScaledObject": {"team-embed/embed-worker", Options{}, "give that with --from FILE"},
		"a formula with a keda signal":           {"team-embed/embed-worker", Options{Formula: true}, "leave --formula out"},
		"a formula without a mirror":             {"team-office/assistant", Options{Formula: true}, "a formula has no fallback"},
	} {
		p, platform := example(t, c.policy)
		if _, err := ScaledObject(p, platform, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestManifestOfAnAdvisoryPolicyHasANote(t *testing.T) {
	chat, platform := example(t, "team-chat/llama-chat")
	advisory := *chat
	advisory.Workload.Mode = scaling.Advisory
	for _, write := range []func(*policy.Compiled) (string, error){
		HPA, func(c *policy.Compiled) (string, error) { return ScaledObject(c, platform, Options{}) },
	} {
		if text, err := write(&advisory); err != nil || !strings.Contains(text, "The policy is advisory") {
			t.Errorf("%v\n%s", err, text)
		}
	}
}
