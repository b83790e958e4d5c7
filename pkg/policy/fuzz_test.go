package policy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// seeds adds every document that stands in the repository.
func seeds(f *testing.F) {
	for _, pattern := range []string{"testdata/mistakes/*.yaml", "../../config/examples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			for _, p := range split(text) {
				f.Add(p.text)
			}
		}
	}
	f.Add([]byte("a: &a [*a]\n---\n<<: {x: 1}\n...\nkind: ScalingPolicy"))
	f.Add([]byte("apiVersion: gpuscaler.io/v1alpha1\nkind: ScalingPolicy\nmetadata: &m {name: *m}\nspec: {signals: [{target: 1e999}, null, 3]}"))
}

// Whatever stands in a file: it is loaded without harm, what is in force keeps its promises, and each problem has its place.
func FuzzFile(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		store := NewStore(Options{})
		report := store.load([]file{{name: "platform.yaml", text: []byte(wellPlatform)}, {name: "fuzz.yaml", text: text}})
		for _, c := range store.Compiled() {
			for _, fault := range broken(c) {
				t.Error(fault)
			}
		}
		// YAML knows more line breaks than editors do.
		lines := 1 + len(regexp.MustCompile("[\n\r\u0085\u2028\u2029]").FindAllIndex(text, -1))
		for _, p := range report.Problems {
			if p.Message == "" || strings.HasPrefix(p.Message, ourFault) || p.File == "fuzz.yaml" && (p.Line < 1 || p.Line > lines+1) {
				t.Errorf("%+v in a file of %d lines", p, lines)
			}
		}
		if again := store.load([]file{{name: "platform.yaml", text: []byte(wellPlatform)}, {name: "fuzz.yaml", text: text}}); again.Changed || Render(again.Problems) != Render(report.Problems) {
			t.Errorf("the same text again: changed %v\n%s\nbefore\n%s", again.Changed, Render(again.Problems), Render(report.Problems))
		}
	})
}

func FuzzAnnotations(f *testing.F) {
	f.Add("signals: [{name: q, type: keda, trigger: sqs, target: 1}]", "70", "keda/sqs", "10", `office Europe/Berlin "0 8 * * 1-5" "0 20 * * 1-5" min=2`)
	f.Add("{", "0.7", "redis-chat/jobs", "80%", "a b c d max=\n\"")
	f.Fuzz(func(t *testing.T, spec, gpu, source, depth, schedule string) {
		store := NewStore(Options{})
		store.load([]file{{name: "platform.yaml", text: []byte(wellPlatform)}})
		object := Object{Kind: "ScaledObject", Namespace: "team-chat", Name: "llama", Target: scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "llama"},
			MaxReplicas: 10, Annotations: map[string]string{AnnotationSpec: spec, AnnotationGPUTarget: gpu, AnnotationQueueSource: source, AnnotationQueueTarget: depth, AnnotationSchedule: schedule}}
		problems := store.SetObject(object)
		all := store.Compiled()
		if (len(all) == 1) != (Errors(problems) == 0) {
			t.Errorf("%d in force with\n%s", len(all), Render(problems))
		}
		for _, c := range all {
			for _, fault := range broken(c) {
				t.Error(fault)
			}
		}
		for _, p := range problems {
			if p.Field == "" || p.Message == "" || strings.HasPrefix(p.Message, ourFault) || p.File != "ScaledObject team-chat/llama" {
				t.Errorf("%+v", p)
			}
		}
	})
}

func FuzzOperator(f *testing.F) {
	for _, seed := range []string{"min=12 until=2026-11-22T06:00Z", "max=0 until=2026-11-22T06:00:00+01:00", "min=1", "until=", "min=-1 until=2026-11-22T06:00Z", "min=3 max=2 until=2026-11-22T06:00Z"} {
		f.Add("true", seed)
	}
	f.Fuzz(func(t *testing.T, paused, override string) {
		o, problems := ParseOperator(map[string]string{AnnotationPaused: paused, AnnotationOverride: override})
		acts := o.Min >= 0 || o.Max >= 0
		if o.Min < -1 || o.Max < -1 || o.Min > mostReplicas || o.Max > mostReplicas || acts != (o.Until.After(time.Unix(0, 0))) || o.Min >= 0 && o.Max >= 0 && o.Min > o.Max {
			t.Errorf("%q is %+v", override, o)
		}
		if acts == (len(problems) > 0 && problems[len(problems)-1].Field == AnnotationOverride) {
			t.Errorf("%q is %+v with %v", override, o, problems)
		}
		if paused == "true" && !o.Paused || paused == "false" && o.Paused {
			t.Errorf("paused %q is %v", paused, o.Paused)
		}
	})
}
