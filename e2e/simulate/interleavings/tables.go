package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
)

// The tables assign a number to each NodePool, each memory of a replica and each patch. States refer to these objects by their numbers.
// The tables also cache the results of the product's code, which is called once for each input, because the results depend only on the
// arguments.

// present is the current time in every state. When time passes, all stored times are moved into the past instead.
var present = time.UnixMilli(1_800_000_000_000).UTC()

// stored matches a time in Unix milliseconds in the text of a record.
var stored = regexp.MustCompile(`\b1[78]\d{11}\b`)

// earlier moves the times in a text into the past by the given duration.
func earlier(text string, by time.Duration) string {
	return stored.ReplaceAllStringFunc(text, func(digits string) string {
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			panic(err)
		}
		return strconv.FormatInt(n-by.Milliseconds(), 10)
	})
}

// table assigns a number to each value. It never assigns 0.
type table[T any] struct {
	mu     sync.RWMutex
	byKey  map[string]int32
	values []T
}

// id returns the number of the value with the given key. For a new key, it stores the value that create returns.
func (t *table[T]) id(key string, create func() T) int32 {
	t.mu.RLock()
	id, known := t.byKey[key]
	t.mu.RUnlock()
	if known {
		return id
	}
	value := create()
	t.mu.Lock()
	defer t.mu.Unlock()
	if id, known := t.byKey[key]; known {
		return id
	}
	if t.byKey == nil {
		t.byKey, t.values = map[string]int32{}, append(t.values, value) // values[0] is never read, because 0 is not the number of a value
	}
	t.values = append(t.values, value)
	t.byKey[key] = int32(len(t.values) - 1)
	return int32(len(t.values) - 1)
}

func (t *table[T]) at(id int32) T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.values[id]
}

// memo caches the results of a function by their arguments.
type memo[K comparable, V any] struct {
	mu      sync.RWMutex
	results map[K]V
}

func (m *memo[K, V]) get(key K, compute func() V) V {
	m.mu.RLock()
	v, known := m.results[key]
	m.mu.RUnlock()
	if known {
		return v
	}
	v = compute()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.results == nil {
		m.results = map[K]V{}
	}
	m.results[key] = v
	return v
}

func (m *memo[K, V]) len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.results)
}

// content is a NodePool without the fields that version contains, and without the times in managedFields.
type content struct {
	object *unstructured.Unstructured
	facts  facts
}

// facts contains the parts of a NodePool that the invariants use.
type facts struct {
	limit    string // spec.limits of the resource as JSON; empty: not set
	consent  nodepool.Consent
	record   string // gpuscaler's record annotation; empty: none
	on       bool   // whether the record contains an override of the limit
	original string // the owner's limit in the record
	counted  int    // number of edits by other managers that the record counts
	ours     bool   // whether gpuscaler's field manager owns a field
	rest     string // the parts of the NodePool that gpuscaler must not change, as JSON
}

var limitPath = []string{"spec", "limits", resource}

// intern adds the content of a NodePool to the table contents and returns its number there. Equal contents have the same number.
func (m *model) intern(u *unstructured.Unstructured) int32 {
	u = u.DeepCopy()
	u.SetResourceVersion("")
	u.SetUID("")
	u.SetGeneration(0)
	u.SetCreationTimestamp(metav1.Time{})
	entries := u.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	slices.SortFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		return slices.Compare([]string{string(a.Operation), a.Manager}, []string{string(b.Operation), b.Manager})
	})
	u.SetManagedFields(entries)
	text, err := u.MarshalJSON()
	if err != nil {
		panic(err)
	}
	return m.contents.id(string(text), func() content { return content{object: u, facts: factsOf(u)} })
}

func factsOf(u *unstructured.Unstructured) facts {
	annotations := u.GetAnnotations()
	f := facts{limit: apiserver.FieldText(u, limitPath...), record: annotations[karpenter.RecordAnnotation],
		ours: ownership.HasManager(u.GetManagedFields(), ownership.Manager)}
	f.consent, _ = nodepool.ConsentOf(annotations[karpenter.ConsentAnnotation])
	var record struct {
		Fields []struct {
			Path, Original string
			On             bool
			Overwrites     int
		}
	}
	if f.record != "" {
		if err := json.Unmarshal([]byte(f.record), &record); err != nil {
			panic(fmt.Errorf("record %s: %w", f.record, err))
		}
	}
	for _, field := range record.Fields {
		f.on, f.original, f.counted = field.On, field.Original, field.Overwrites
	}
	rest := u.DeepCopy()
	rest.SetManagedFields(nil)
	for _, key := range []string{karpenter.RecordAnnotation, karpenter.HolderAnnotation} {
		delete(annotations, key)
	}
	rest.SetAnnotations(annotations)
	unstructured.RemoveNestedField(rest.Object, "spec", "limits")
	text, err := rest.MarshalJSON()
	if err != nil {
		panic(err)
	}
	f.rest = string(text)
	return f
}

// facts returns the facts of a version. The NodePool must exist in this version.
func (m *model) facts(v version) facts { return m.contents.at(v.content).facts }

// object returns the NodePool of a version as the API server returns it. The caller must not change it.
func (m *model) object(v version) *unstructured.Unstructured {
	return m.objects.get(v, func() *unstructured.Unstructured {
		u := m.contents.at(v.content).object.DeepCopy()
		u.SetResourceVersion(strconv.Itoa(int(v.serial)))
		u.SetGeneration(int64(v.generation))
		u.SetUID(types.UID(strconv.Itoa(int(v.uid))))
		u.SetCreationTimestamp(metav1.NewTime(present.Add(-24 * time.Hour)))
		return u
	})
}

// decoded returns the NodePool of a version, decoded as in the product's cache.
func (m *model) decoded(v version) *karpenter.NodePool {
	return m.pools.get(v, func() *karpenter.NodePool { return karpenter.DecodeNodePool(m.object(v)) })
}

// Values of memory.kind.
const (
	ofGroup        uint8 = iota + 1 // the state of the capacity group
	ofOrphan                        // a NodePool whose group was removed, with a readable record
	ofOrphanNoText                  // a NodePool whose group was removed, without a readable record
)

// memory is the state of the NodePool that the engine of a replica stores between two ticks.
type memory struct {
	kind  uint8
	state capacity.State
}

// remember adds the state s of a replica to the table memories and returns its number there. It first resets the times that have no effect
// in this model: KnownSince and ShortSince, which only a spot wait timeout uses, and At, which matters only if the clock is set back.
func (m *model) remember(kind uint8, s *capacity.State) int32 {
	if p := &s.Pools[0]; p.UID != "" {
		p.UID = "1" // replica.remembers contains the UID
	}
	now := present.UnixMilli()
	s.At, s.KnownSince, s.ShortSince = now, now, 0
	if z := &s.ZeroLimit.Since; *z != 0 {
		*z = max(*z, now-(10*time.Minute).Milliseconds())
	}
	text, err := s.Snapshot()
	if err != nil {
		panic(err)
	}
	return m.memories.id(string(rune('0'+kind))+string(text), func() memory { return memory{kind, *s} })
}

// agedMemory returns the number of the memory that the memory id becomes after the given time has passed.
func (m *model) agedMemory(id int32, by time.Duration) int32 {
	if id == 0 {
		return 0
	}
	return m.aged.get(aging{'m', id, by}, func() int32 {
		old := m.memories.at(id)
		s := old.state
		for _, at := range append(s.State.Stamps(nil), &s.ZeroLimit.Since) {
			if *at != 0 {
				*at -= by.Milliseconds()
			}
		}
		for i := range s.Pools {
			p := &s.Pools[i]
			p.Record, p.Written = earlier(p.Record, by), earlier(p.Written, by)
		}
		return m.remember(old.kind, &s)
	})
}

// agedContent returns the number of the content that the content id becomes after the given time has passed.
func (m *model) agedContent(id int32, by time.Duration) int32 {
	if id == 0 {
		return 0
	}
	return m.aged.get(aging{'c', id, by}, func() int32 {
		u := m.contents.at(id).object.DeepCopy()
		values := u.GetAnnotations()
		if record, has := values[karpenter.RecordAnnotation]; has {
			values[karpenter.RecordAnnotation] = earlier(record, by)
			u.SetAnnotations(values)
		}
		return m.intern(u)
	})
}

// agedPatch returns the number of the patch that the patch id becomes after the given time has passed.
func (m *model) agedPatch(id int32, by time.Duration) int32 {
	return m.aged.get(aging{'p', id, by}, func() int32 {
		p := m.patches.at(id)
		p.Record = earlier(p.Record, by)
		return m.patch(p)
	})
}

func (m *model) patch(p capacity.NodePoolPatch) int32 {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return m.patches.id(string(text), func() capacity.NodePoolPatch { return p })
}

// aging identifies a value in a table ('m' memories, 'c' contents, 'p' patches) and the time that passes.
type aging struct {
	kind byte
	id   int32
	by   time.Duration
}
