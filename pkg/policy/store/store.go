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

// State describes which version of a document is in force.
type State string

// Values of State.
const (
	InForce   State = "InForce"   // the document as written
	LastValid State = "LastValid" // the last valid version, because the document was refused or cannot be read
	Refused   State = "Refused"   // no version, because the document was refused and has no valid version
)

// Status is the state of one document, for a metric, a log line and a page.
type Status struct {
	Document string           `json:"document"` // kind and name: "ScalingPolicy team-chat/llama-chat"; the file if the document has no name
	File     string           `json:"file"`
	State    State            `json:"state"`
	Hash     string           `json:"hash,omitempty"`    // first 4 digits of the text's hash, as in an Origin
	InForce  string           `json:"inForce,omitempty"` // Origin of the version in force
	Since    time.Time        `json:"since"`             // time at which the state began; zero without a clock
	Problems []policy.Problem `json:"problems,omitempty"`
	Waits    string           `json:"waits,omitempty"` // what the document waits for, if it has no problem
}

// Report is the result of a Load.
type Report struct {
	Problems   []policy.Problem // all problems and warnings, in the order of the files
	Notices    []policy.Problem // events of this load that are not problems of a document; each is reported once
	Outcomes   []policy.Problem // one problem for each document that this load refuses; each is reported once
	Changed    bool             // the policies or the PlatformConfig in force changed
	Generation uint64           // number of times that the policies in force have changed
}

// Options configures a Store.
type Options struct {
	// Clock provides Status.Since; nil leaves it zero.
	Clock func() time.Time
	// Prepare is called with the policies and the PlatformConfig before readers see them. The poller uses it to read the signals of a new
	// policy before the first decision. It is called with the lock of the store held, so it must do no I/O and call no method of the store.
	// It may be nil.
	Prepare func(policies []*policy.Compiled, platform *policy.Platform)
}

// Store contains the policies in force. Load, SetObject and DeleteObject change them. Methods that read the policies in force take no lock,
// so they never wait for a load. It implements the interface Policies of package engine. All methods are safe for concurrent use.
type Store struct {
	clock   func() time.Time
	prepare func([]*policy.Compiled, *policy.Platform)

	mu                sync.Mutex
	loaded            bool   // there was a load
	mounted           []file // the files of the last load, without their text
	configMaps        map[configMapKey]*configMap
	unreported        Report                 // of changes of ConfigMaps since the last load, without problems
	files             map[string]*loadedFile // key: name of the file
	order             []string               // names of files, in the order of Load
	policies          map[string]*entry      // key: ID of the document
	config            entry                  // the PlatformConfig
	lastValidPlatform *policy.Platform       // the last valid version of the PlatformConfig
	platform          *policy.Platform       // the PlatformConfig in force: lastValidPlatform or a substitute for it; never nil
	missing           *policy.Problem        // the problem that no file contains the PlatformConfig in force; nil if one does
	holds             holder
	objects           map[objectKey]*object
	carriers          map[scaling.Key]objectKey // the object that carries each policy
	// owners has the policy that decides for each target. It is set when policies are published, and when an object claims a target that no
	// policy decides for.
	owners map[targetKey]string
	// status contains the status of each document by Status.Document, or by file if the file cannot be read. It has no entry for a document
	// that is in force without a problem.
	status   map[string]Status
	interner *compile.Interner

	dirty             atomic.Bool
	configMapsChanged atomic.Bool // SetConfigMap or DeleteConfigMap was called since the last load
	reloaded          atomic.Bool // unreported is not empty
	current           atomic.Pointer[snapshot]
}

// snapshot contains the policies in force. It is immutable and published as one pointer.
type snapshot struct {
	workloads  []scaling.Workload
	compiled   []*policy.Compiled // in the order of the workloads, sorted by key
	platform   *policy.Platform
	generation uint64
	next       chan struct{} // closed when a newer snapshot is published
}

// targetKey identifies an object for which at most one policy decides.
type targetKey struct {
	namespace string
	group     string
	kind      string
	name      string
}

// New returns a store without policies.
func New(o Options) *Store {
	s := &Store{
		clock: o.Clock, prepare: o.Prepare, files: map[string]*loadedFile{}, policies: map[string]*entry{},
		configMaps: map[configMapKey]*configMap{}, objects: map[objectKey]*object{}, carriers: map[scaling.Key]objectKey{},
		owners: map[targetKey]string{}, status: map[string]Status{}, interner: compile.NewInterner(), platform: noPlatform,
		lastValidPlatform: noPlatform,
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

// Publish makes the changes of SetObject, DeleteObject, SetConfigMap and DeleteConfigMap visible to readers. The control loop calls it
// before each tick. It never waits for the lock of the store. While a load holds the lock, Publish does nothing, and the load publishes the
// changes at its end. While another call holds the lock, the next Publish publishes the changes. ConfigMaps are not decoded before the
// first load.
func (s *Store) Publish() {
	if !s.dirty.Load() && !s.configMapsChanged.Load() || !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	if s.loaded && s.configMapsChanged.Swap(false) {
		s.reload()
		return
	}
	s.publish()
}

// Current returns the workloads in force, sorted by namespace and name. The caller must not change the slice.
func (s *Store) Current() []scaling.Workload { return s.current.Load().workloads }

// Compiled returns the policies in force, in the order of Current. The caller must not change the slice.
func (s *Store) Compiled() []*policy.Compiled { return s.current.Load().compiled }

// Platform returns the PlatformConfig in force. It is never nil.
func (s *Store) Platform() *policy.Platform { return s.current.Load().platform }

// Find returns the policy in force with a name, or nil.
func (s *Store) Find(key scaling.Key) *policy.Compiled {
	v := s.current.Load()
	i, ok := slices.BinarySearchFunc(v.compiled, key,
		func(c *policy.Compiled, key scaling.Key) int { return compareKeys(c.Workload.Key, key) })
	if !ok {
		return nil
	}
	return v.compiled[i]
}

// Changed returns the generation of the policies in force, and a channel that is closed when there is a newer one.
func (s *Store) Changed() (generation uint64, next <-chan struct{}) {
	v := s.current.Load()
	return v.generation, v.next
}

// Statuses returns the status of every document and of every object that carries a policy, sorted by document.
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
	return cmp.Or(st.Waits, "it was never valid")
}

// publish replaces the snapshot if the policies in force changed. The caller holds the mutex.
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

// Groups returns the capacity groups in force, in the order of the PlatformConfig. The pointers are the same in every call until another
// PlatformConfig is in force. The caller must not change the groups.
func (s *Store) Groups() []*capacity.Group { return s.current.Load().platform.NodeGroups }
