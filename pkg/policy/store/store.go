package store

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/compile"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// State says whether what somebody wrote is what decides.
type State string

const (
	InForce   State = "InForce" // the document decides as it is written
	LastValid State = "Held"    // it was refused or cannot be read; its last good version decides
	Refused   State = "Refused" // it was refused and there is no good version: nothing decides in its name
)

// Status is the record of one document, for a gauge, a log line and a page.
type Status struct {
	Document string           `json:"document"` // "ScalingPolicy team-chat/llama-chat"; the file where the document has no name
	File     string           `json:"file"`
	State    State            `json:"state"`
	Hash     string           `json:"hash,omitempty"`    // first 4 digits of the text's hash, as in an Origin
	InForce  string           `json:"inForce,omitempty"` // Origin of the version that decides
	Since    time.Time        `json:"since"`             // when it came into this state; zero without a clock
	Problems []policy.Problem `json:"problems,omitempty"`
	Waits    string           `json:"waits,omitempty"` // what it waits for, where nothing is wrong with it
}

// Report is the outcome of a Load.
type Report struct {
	Problems   []policy.Problem // all of them, warnings too, in the order of the files
	Notices    []policy.Problem // what came about in this load and stands nowhere: told once
	Outcomes   []policy.Problem // for each document that this load does not accept as written: held or refused; reported once
	Changed    bool             // what is in force differs from before
	Generation uint64           // counts the changes of what is in force
}

// Options are what a Store needs from outside.
type Options struct {
	// Clock stamps Status.Since; nil leaves it zero.
	Clock func() time.Time
	// Prepare is told what comes into force before any reader can see it, so that whoever polls for it has its readings in place: a
	// policy that decides before it can be read decides blindly. It is called under the store's lock, does no I/O and calls no method
	// of the store. nil: nobody needs to know.
	Prepare func(policies []*policy.Compiled, platform *policy.Platform)
}

// Store holds the policies that are in force. Loads and objects come in at its own pace; readers never wait for them.
// It implements the engine's port Policies. All methods are safe for concurrent use.
type Store struct {
	clock   func() time.Time
	prepare func([]*policy.Compiled, *policy.Platform)

	mu                sync.Mutex
	files             map[string]*loadedFile // by name
	order             []string               // names of files, in the order of Load
	policies          map[string]*entry      // by document id
	config            entry                  // the PlatformConfig
	lastValidPlatform *policy.Platform       // its last good version
	platform          *policy.Platform       // in force: good, or what stands in for it; never nil
	vanished          *policy.Problem        // the PlatformConfig in force is in no file; nil: it is
	holds             holder
	objects           map[objectKey]*object
	carriers          map[scaling.Key]objectKey // the object that carries a policy
	owners            map[targetKey]string      // the policy, in the same namespace, whose number a target follows, as published last
	status            map[string]Status         // by document, or by file where there is no document; without those that are plain
	interner          *compile.Interner

	dirty   atomic.Bool
	current atomic.Pointer[snapshot]
}

// snapshot is what is in force, published as one value.
type snapshot struct {
	workloads  []scaling.Workload
	compiled   []*policy.Compiled // parallel, by key
	platform   *policy.Platform
	generation uint64
	next       chan struct{} // closed when a newer one is published
}

// targetKey is an object that can have one owner only.
type targetKey struct {
	namespace string
	group     string
	kind      string
	name      string
}

// NewStore returns a store in which nothing is in force yet.
func New(o Options) *Store {
	s := &Store{
		clock: o.Clock, prepare: o.Prepare, files: map[string]*loadedFile{}, policies: map[string]*entry{},
		objects: map[objectKey]*object{}, carriers: map[scaling.Key]objectKey{}, owners: map[targetKey]string{},
		status: map[string]Status{}, interner: compile.NewInterner(), platform: noPlatform, lastValidPlatform: noPlatform,
	}
	if s.clock == nil {
		s.clock = func() time.Time { return time.Time{} }
	}
	if s.prepare == nil {
		s.prepare = func([]*policy.Compiled, *policy.Platform) {}
	}
	s.current.Store(&snapshot{platform: noPlatform, next: make(chan struct{})})
	return s
}

// Publish makes the changes of SetObject and DeleteObject visible to readers. It never waits: a load in progress publishes them at its
// end, and another call in progress leaves them to the next Publish. The loop calls it before each tick.
func (s *Store) Publish() {
	if s.dirty.Load() && s.mu.TryLock() {
		s.publish()
		s.mu.Unlock()
	}
}

// Current returns the workloads to decide for, by namespace and name. The slice is shared: do not write to it.
func (s *Store) Current() []scaling.Workload { return s.current.Load().workloads }

// Compiled returns the policies in force, parallel to Current. The slice is shared: do not write to it.
func (s *Store) Compiled() []*policy.Compiled { return s.current.Load().compiled }

// Platform returns the platform in force; never nil.
func (s *Store) Platform() *policy.Platform { return s.current.Load().platform }

// Find returns the policy in force under a name, or nil.
func (s *Store) Find(key scaling.Key) *policy.Compiled {
	v := s.current.Load()
	i, ok := slices.BinarySearchFunc(v.compiled, key, func(c *policy.Compiled, key scaling.Key) int { return compareKeys(c.Workload.Key, key) })
	if !ok {
		return nil
	}
	return v.compiled[i]
}

// Changed returns the generation of what is in force, and a channel that is closed when there is a newer one.
func (s *Store) Changed() (generation uint64, next <-chan struct{}) {
	v := s.current.Load()
	return v.generation, v.next
}

// Statuses returns the record of every document and of every object that carries a policy, by name.
func (s *Store) Statuses() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.statuses()
	for _, o := range s.objects {
		out = append(out, o.status())
	}
	slices.SortFunc(out, func(a, b Status) int { return cmp.Compare(a.Document, b.Document) })
	return out
}

// Refusal returns why no version of a policy is in force although a file or an object has one, or "" otherwise.
func (s *Store) Refusal(key scaling.Key) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := spec.KindScalingPolicy + " " + key.String()
	for _, st := range s.statuses() {
		if st.Document == id && st.State == Refused {
			return st.reason()
		}
	}
	for _, o := range s.objects {
		if st := o.status(); o.policyKey() == key && st.State == Refused {
			return st.reason()
		}
	}
	return ""
}

// reason returns the first problem of a refused document, or what it waits for.
func (st *Status) reason() string {
	for _, p := range st.Problems {
		if !p.Warning {
			p.Document = ""
			return p.String()
		}
	}
	return cmp.Or(st.Waits, "no version of it was ever valid")
}

// publish swaps in what is in force now, if it differs. The mutex is held.
func (s *Store) publish() bool {
	s.dirty.Store(false)
	all := s.resolve()
	old := s.current.Load()
	if s.platform == old.platform && slices.Equal(all, old.compiled) {
		return false
	}
	next := &snapshot{
		compiled: all, workloads: make([]scaling.Workload, len(all)), platform: s.platform,
		generation: old.generation + 1, next: make(chan struct{}),
	}
	for i, c := range all {
		next.workloads[i] = c.Workload
	}
	s.prepare(next.compiled, next.platform)
	s.current.Store(next)
	close(old.next)
	return true
}

// Groups returns the capacity groups in force, in the order of the PlatformConfig. The slice and the groups are shared and the same
// until a newer PlatformConfig is in force: do not write to them.
func (s *Store) Groups() []*capacity.Group { return s.current.Load().platform.NodeGroups }
