package store_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// While files are loaded and objects change, a reader must always receive both policies of a file in the same version.
func TestReadersSeeACompleteVersionDuringChanges(t *testing.T) {
	f := newFolder(t)
	f.write("p.yaml", platform(objectsPlatform))
	f.write("a.yaml", simple("a", 3)+"---\n"+simple("b", 3))
	policies := store.New(store.Options{})
	policies.Load(f.path)
	stop := make(chan struct{})
	var writers, readers sync.WaitGroup
	writers.Go(func() {
		for i := range 50 {
			f.write("a.yaml", simple("a", 3+i%5)+"---\n"+simple("b", 3+i%5))
			policies.Load(f.path)
		}
	})
	for n := range 2 {
		writers.Go(func() {
			for i := range 50 {
				object := scaledObject(pageAnnotations)
				object.Name = fmt.Sprintf("object-%d", n)
				object.Target.Name = object.Name
				object.MaxReplicas = int32(3 + i%5)
				setObject(policies, object)
				if i%10 == 9 {
					deleteObject(policies, object.Kind, object.Namespace, object.Name)
				}
			}
		})
	}
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			at := map[string]int32{}
			for _, w := range policies.Current() {
				at[w.Key.Name] = w.Policy.MaxReplicas
			}
			if at["a"] != at["b"] || at["a"] == 0 {
				t.Errorf("a at %d beside b at %d", at["a"], at["b"])
				return
			}
			_, _ = policies.Changed()
			policies.Statuses()
		}
	})
	writers.Wait()
	close(stop)
	readers.Wait()
	if generation, _ := policies.Changed(); generation < 3 {
		t.Errorf("generation %d", generation)
	}
}
