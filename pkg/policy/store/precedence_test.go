package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// policyFor returns a policy whose scale target has another name than the policy.
func policyFor(target, name string, maxReplicas int) string {
	return strings.Replace(simple(name, maxReplicas), "scaleTargetRef: {name: "+name+"}", "scaleTargetRef: {name: "+target+"}", 1)
}

// extends sets annotations on the HPA of the Deployment llama, so that the HPA extends a policy. maxReplicas of the HPA is 6.
func (a applied) extends(name string) {
	setObject(a.Store, store.Object{Kind: "HorizontalPodAutoscaler", Namespace: "team-chat", Name: "llama", MinReplicas: 1, MaxReplicas: 6,
		Target:      scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "llama"},
		Annotations: map[string]string{"gpuscaler.io/policy": name, "gpuscaler.io/mode": "advisory"}})
}

// older and newer create a ConfigMap with a policy. If the ConfigMaps were sorted by name instead of age, their order would be reversed.
func (a applied) older(text string) { a.aged("z-older", 1, text) }
func (a applied) newer(text string) { a.aged("a-newer", 2, text) }

func (a applied) aged(name string, created int64, text string) {
	a.SetConfigMap(store.ConfigMap{Namespace: "team-chat", Name: name, UID: "uid-" + name, Created: time.Unix(created, 0), Bytes: len(text),
		Data: map[string]string{"p": text}})
	a.Publish()
}

// orders calls visit with each permutation of the steps.
func orders(steps []func(a applied), visit func(order []func(a applied))) {
	var next func(order, rest []func(a applied))
	next = func(order, rest []func(a applied)) {
		if len(rest) == 0 {
			visit(order)
		}
		for i := range rest {
			others := append(append([]func(a applied){}, rest[:i]...), rest[i+1:]...)
			next(append(order[:len(order):len(order)], rest[i]), others)
		}
	}
	next(nil, steps)
}

// A policy must keep its precedence if the annotations of an HPA extend it: a file of the platform team takes precedence over ConfigMaps,
// and an older ConfigMap takes precedence over a newer ConfigMap. The order in which the documents and the HPA are read must have no
// effect, because it differs after a restart.
func TestPrecedenceDoesNotDependOnTheOrder(t *testing.T) {
	file := func(text string) func(a applied) {
		return func(a applied) {
			a.write("file.yaml", text)
			a.load()
		}
	}
	older := func(text string) func(a applied) { return func(a applied) { a.older(text) } }
	newer := func(text string) func(a applied) { return func(a applied) { a.newer(text) } }
	extends := func(name string) func(a applied) { return func(a applied) { a.extends(name) } }
	for name, c := range map[string]struct {
		steps []func(a applied)
		want  string
	}{
		"an extended file and a ConfigMap": {[]func(a applied){
			file(policyFor("llama", "m", 9)), older(policyFor("llama", "a", 3)), extends("m")}, "m 6"},
		"an extended file and a ConfigMap whose policy has a later name": {[]func(a applied){
			file(policyFor("llama", "m", 9)), older(policyFor("llama", "z", 3)), extends("m")}, "m 6"},
		"an extended file of another workload and a ConfigMap": {[]func(a applied){
			file(policyFor("other", "m", 9)), older(policyFor("llama", "a", 3)), extends("m")}, "m 6"},
		"a file and an extended ConfigMap": {[]func(a applied){
			file(policyFor("llama", "m", 9)), older(policyFor("llama", "a", 3)), extends("a")}, "m 9"},
		"two ConfigMaps": {[]func(a applied){older(policyFor("llama", "m", 9)), newer(policyFor("llama", "a", 3))}, "m 9"},
		"an older extended ConfigMap and another one": {[]func(a applied){
			older(policyFor("llama", "m", 9)), newer(policyFor("llama", "a", 3)), extends("m")}, "m 6"},
		"a newer extended ConfigMap and another one": {[]func(a applied){
			older(policyFor("llama", "m", 9)), newer(policyFor("llama", "a", 3)), extends("a")}, "m 9"},
	} {
		t.Run(name, func(t *testing.T) {
			orders(c.steps, func(order []func(a applied)) {
				a := newApplied(t, allowing)
				for _, step := range order {
					step(a)
				}
				for range 3 {
					expect(t, a.Store, name, c.want)
					a.load()
				}
			})
		})
	}
}
