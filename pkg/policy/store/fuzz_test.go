package store

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// seeds adds the documents of config/examples and testdata/mistakes to the fuzz corpus, and two invalid documents.
func seeds(f *testing.F) {
	for _, pattern := range []string{"testdata/mistakes/*.yaml", "../../../config/examples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			for _, p := range decode.Split(text) {
				f.Add(p.Text)
			}
		}
	}
	f.Add([]byte("a: &a [*a]\n---\n<<: {x: 1}\n...\nkind: ScalingPolicy"))
	f.Add([]byte("apiVersion: gpuscaler.io/v1alpha1\nkind: ScalingPolicy\nmetadata: &m {name: *m}\nspec: {signals: " +
		"[{target: 1e999}, null, 3]}"))
}

// FuzzFile loads arbitrary files and checks three properties: loading does not panic, compiled policies satisfy the invariants of package
// scaling, and each problem has a line number that exists in the file.
func FuzzFile(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		policies := New(Options{})
		report := policies.load([]file{{name: "platform.yaml", text: []byte(wellPlatform)}, {name: "fuzz.yaml", text: text}})
		for _, c := range policies.Compiled() {
			for _, fault := range broken(c) {
				t.Error(fault)
			}
		}
		// These are the characters that YAML treats as line breaks.
		lines := 1 + len(regexp.MustCompile("[\n\r\u0085\u2028\u2029]").FindAllIndex(text, -1))
		for _, p := range report.Problems {
			if p.Message == "" || strings.HasPrefix(p.Message, decode.InternalError) || p.File == "fuzz.yaml" && (p.Line < 1 || p.Line > lines+1) {
				t.Errorf("%+v in a file of %d lines", p, lines)
			}
		}
		if again := policies.load([]file{{name: "platform.yaml", text: []byte(wellPlatform)},
			{name: "fuzz.yaml", text: text}}); again.Changed || policy.Render(again.Problems) != policy.Render(report.Problems) {
			t.Errorf("the same text again: changed %v\n%s\nbefore\n%s", again.Changed, policy.Render(again.Problems), policy.Render(report.Problems))
		}
	})
}

func FuzzAnnotations(f *testing.F) {
	f.Add("signals: [{name: q, type: keda, trigger: sqs, target: 1}]", "70", "keda/sqs", "10",
		`office Europe/Berlin "0 8 * * 1-5" "0 20 * * 1-5" min=2`)
	f.Add("{", "0.7", "redis-chat/jobs", "80%", "a b c d max=\n\"")
	f.Fuzz(func(t *testing.T, written, gpu, source, depth, line string) {
		policies := New(Options{})
		policies.load([]file{{name: "platform.yaml", text: []byte(wellPlatform)}})
		object := Object{Kind: "ScaledObject", Namespace: "team-chat", Name: "llama",
			Target:      scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "llama"},
			MaxReplicas: 10, Annotations: map[string]string{annotations.Spec: written, annotations.GPUTarget: gpu,
				annotations.QueueSource: source, annotations.QueueTarget: depth, annotations.Schedule: line}}
		problems := policies.SetObject(object)
		policies.Publish()
		all := policies.Compiled()
		if (len(all) == 1) != (policy.Errors(problems) == 0) {
			t.Errorf("%d in force with\n%s", len(all), policy.Render(problems))
		}
		for _, c := range all {
			for _, fault := range broken(c) {
				t.Error(fault)
			}
		}
		for _, p := range problems {
			if p.Field == "" || p.Message == "" || strings.HasPrefix(p.Message, decode.InternalError) || p.File != "ScaledObject team-chat/llama" {
				t.Errorf("%+v", p)
			}
		}
	})
}
