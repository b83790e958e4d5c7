package agreement

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/karpenter/pkg/apis"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// compare compares the output of a side (the models or the real components) with the expectation of the story. With UPDATE_GOLDEN=1, the
// output of the real side becomes the expectation.
func compare(t *testing.T, s *story, got string, realSide bool) {
	t.Helper()
	if got == s.expect {
		return
	}
	if realSide && os.Getenv("UPDATE_GOLDEN") != "" {
		path := "stories/" + s.name + ".story"
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(withExpect(string(content), got)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("got\n%s\nwant\n%s", got, s.expect)
}

func all(t *testing.T, on string) []*story {
	t.Helper()
	found, err := stories(on)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatalf("no stories on %s", on)
	}
	return found
}

func playPools(t *testing.T, api nodePools, s *story) string {
	t.Helper()
	p, err := newPoolStory(api, s.name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.play(s.steps)
	if err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(p.lines, "\n"))
	}
	return got
}

func TestNodePoolStoriesOnTheModel(t *testing.T) {
	for _, s := range all(t, "nodepools") {
		t.Run(s.name, func(t *testing.T) { compare(t, s, playPools(t, newModelPools(), s), false) })
	}
}

func TestStoriesOnTheRealComponents(t *testing.T) {
	k8s := stack.Start(t, stack.Options{})
	t.Run("hpa", func(t *testing.T) { realHPAs(t, k8s) })
	t.Run("nodepools", func(t *testing.T) { realNodePools(t, k8s) })
}

// initial is the number of replicas of a Deployment before the HPA scales it.
const initial = 2

func TestHPAStoriesOnTheModels(t *testing.T) {
	for _, s := range all(t, "hpa") {
		t.Run(s.name, func(t *testing.T) {
			got, err := playScaling(newModelScaled(s.name, initial), s.steps)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, s, got, false)
		})
	}
}

// realHPAs runs the stories with the real HPA controller, whose sync period is 2 s, and the real Deployment controller.
func realHPAs(t *testing.T, k8s *stack.Stack) {
	if os.Getenv("GPUSCALER_E2E_LONG") == "" {
		t.Skip("two minutes: GPUSCALER_E2E_LONG=1, or make test-long")
	}
	if err := errors.Join(k8s.Nodes(t.Context(), "gpu", 4, 64), k8s.Namespace(t.Context(), namespace)); err != nil {
		t.Fatal(err)
	}
	served, err := serve(t.Context(), k8s)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all(t, "hpa") {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel() // a story spends most of its time waiting for syncs
			d, err := newRealScaled(t.Context(), k8s, served, s.name, initial)
			if err != nil {
				t.Fatal(err)
			}
			got, err := playScaling(d, s.steps)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, s, got, true)
		})
	}
}

// realNodePools runs the stories on kube-apiserver with Karpenter's CRDs. It does not run Karpenter, which would also write the
// NodePools.
func realNodePools(t *testing.T, k8s *stack.Stack) {
	for _, crd := range apis.CRDs {
		if err := client.IgnoreAlreadyExists(k8s.Client.Create(t.Context(), crd.DeepCopy())); err != nil {
			t.Fatal(err)
		}
	}
	api, err := newRealPools(t.Context(), k8s)
	if err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the API server serves NodePools", func(ctx context.Context) error {
		_, err := api.client.List(ctx, metav1.ListOptions{})
		return err
	})
	for _, s := range all(t, "nodepools") {
		t.Run(s.name, func(t *testing.T) { compare(t, s, playPools(t, api, s), true) })
	}
}

func init() { utilruntime.Must(apiextensionsv1.AddToScheme(stack.Scheme)) }

func TestStoriesAreComplete(t *testing.T) {
	found := append(all(t, "nodepools"), all(t, "hpa")...)
	if len(found) < 20 {
		t.Errorf("%d stories", len(found))
	}
	for _, s := range found {
		if s.expect == "" {
			t.Errorf("%s expects nothing", s.name)
		}
	}
	for _, content := range []string{"# text\non: hpa\nsettled\n", "on: hpa\nsettled\n\nexpect:\n", "# text\nsettled\n\nexpect:\n"} {
		if _, err := parse(content); err == nil {
			t.Errorf("%q is a story", content)
		}
	}
}
