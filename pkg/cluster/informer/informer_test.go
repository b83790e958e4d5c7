package informer

import (
	"fmt"
	"testing"

	"k8s.io/client-go/tools/cache"
)

func TestHandlerIgnoresOtherTypesAndUnwrapsDeletedObjects(t *testing.T) {
	type item struct{ name string }
	var calls []string
	h := Handler(
		func(old, object *item) { calls = append(calls, fmt.Sprintf("put %s, was %v", object.name, old != nil)) },
		func(object *item) { calls = append(calls, "drop "+object.name) },
	)
	h.OnAdd(&item{"a"}, true)
	h.OnAdd("another type", true)
	h.OnUpdate(&item{"a"}, &item{"b"})
	h.OnDelete(cache.DeletedFinalStateUnknown{Key: "b", Obj: &item{"b"}})
	h.OnDelete("another type")
	if got := fmt.Sprint(calls); got != "[put a, was false put b, was true drop b]" {
		t.Errorf("calls %s", got)
	}
}
