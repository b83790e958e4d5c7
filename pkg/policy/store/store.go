package store

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/compile"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// State is the state of a document: which of its versions is in force (used by the engine).
type State string

// Possible values of State.
const (
	InForce   State = "InForce"   // the current version of the document
	LastValid State = "LastValid" // the last valid version, because the current version was refused or cannot be read
	Refused   State = "Refused"   // no version, because the document was refused and was never valid
)

// Status is the status of one document for metrics, log lines and the web page.
type Status struct {
	Document string           `json:"document"` // kind and name: "ScalingPolicy team-chat/llama-chat"; the file if the document has no name
	File     string           `json:"file"`
	State    State            `json:"state"`
	Hash     string           `json:"hash,omitempty"`    // first four hex digits of the hash of the document's text
	InForce  string           `json:"inForce,omitempty"` // name and version of the document in force, such as chat.yaml@3f1c
	Since    time.Time        `json:"since"`             // time at which the state began; zero without a clock
	Problems []policy.Problem `json:"problems,omitempty"`
	Waits    string           `json:"waits,omitempty"` // reason why a document without problems is not in force

	duplicate bool // whether another document with the same name takes precedence
}

// Report is the result of a load.
type Report struct {
	Problems   []policy.Problem // all problems and warnings, in the order of the files
	Notices    []policy.Problem // events that are not problems of a document, such as the end of a hold; each is reported once
	Outcomes   []policy.Problem // one problem for each document that this load refused; each refusal is reported once
	Changed    bool             // whether the policies or the PlatformConfig in force changed
	Generation uint64           // how often the policies in force have changed
}

// Options configures a Store.
type Options struct {
	// Clock returns the time for Status.Since. If it is nil, Status.Since is zero.
	Clock func() time.Time
	// Prepare is called with the new policies and the new PlatformConfig before readers receive them. The poller uses it to start reading the
	// signals of a new policy before the first decision. The lock of the store is held during the call, so Prepare must do no I/O and must not
	// call a method of the store. Prepare may be nil.
	Prepare func(policies []*policy.Compiled, platform *policy.Platform)
}

// Store contains the policies in force. Load, SetObject and DeleteObject change them. Methods that read the policies in force do not use
// the lock, so they never wait for a load. Store implements the interface Policies of package engine. All methods are safe for concurrent
// use.
type Store struct {
	clock   func() time.Time
	prepare func([]*policy.Compiled, *policy.Platform)

	// platformElsewhere is set by ValidatePolicies. It means that a PlatformConfig exists that is not among the documents.
	platformElsewhere bool

	mu                sync.Mutex
	loaded            bool   // whether Load was called
	mounted           []file // files of the last load, without their text
	configMaps        map[configMapKey]*configMap
	unreported        Report                 // results of changes of ConfigMaps since the last load, for the report of the next load
	files             map[string]*loadedFile // key: name of the file
	order             []string               // names of files, in the order in which they were last loaded
	policies          map[string]*entry      // key: ID of the document
	config            entry                  // document of the PlatformConfig
	lastValidPlatform *policy.Platform       // last valid version of the PlatformConfig
	platform          *policy.Platform       // current PlatformConfig: lastValidPlatform, or unknownPlatform or noPlatform; never nil
	missing           *policy.Problem        // problem if no file contains the current PlatformConfig any more; nil otherwise
	holds             holder
	objects           map[objectKey]*object
	carriers          map[scaling.Key]objectKey // object whose annotations define each policy
	// owners contains the name of the policy that scales each target. It is set when policies are published, and when an object claims a
	// target that no other policy scales.
	owners map[targetKey]string
	// status contains the status of documents. The key is Status.Document, or the file if the file cannot be read. Documents that are in force
	// without a problem are not in the map.
	status     map[string]Status
	interner   *compile.Interner
	compressor *compressor // compresses the texts of documents

	dirty             atomic.Bool
	configMapsChanged atomic.Bool // whether SetConfigMap or DeleteConfigMap was called since the last load
	reloaded          atomic.Bool // whether unreported is not empty
	current           atomic.Pointer[snapshot]
	statusRevision    atomic.Uint64 // see StatusRevision
}

// snapshot contains the policies in force. It is immutable. To publish a new snapshot, one pointer is replaced.
type snapshot struct {
	workloads  []scaling.Workload
	compiled   []*policy.Compiled // in the same order as workloads, sorted by key
	platform   *policy.Platform
	generation uint64
	next       chan struct{} // closed when a newer snapshot is published
}

// targetKey identifies an object that at most one policy may scale.
type targetKey struct {
	namespace, name string
	kind            unique.Handle[groupKind] // one pointer instead of two strings, because nearly all keys have the same kind
}

type groupKind struct{ group, kind string }

// New returns a store without policies.
func New(o Options) *Store {
	s := &Store{
		clock: o.Clock, prepare: o.Prepare, files: map[string]*loadedFile{}, policies: map[string]*entry{},
		configMaps: map[configMapKey]*configMap{}, objects: map[objectKey]*object{}, carriers: map[scaling.Key]objectKey{},
		owners: map[targetKey]string{}, status: map[string]Status{}, interner: compile.NewInterner(), platform: noPlatform,
		lastValidPlatform: noPlatform, compressor: typical,
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
// before each tick. Publish never waits for the lock of the store. If a load holds the lock, Publish does nothing, and the load publishes
// the changes at its end. If another call holds the lock, Publish does nothing, and the next Publish publishes the changes. ConfigMaps are
// not decoded before the first load.
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

// Current returns the workloads of the policies in force, sorted by namespace and name. The caller must not change the slice.
func (s *Store) Current() []scaling.Workload { return s.current.Load().workloads }

// Compiled returns the policies in force, in the order of Current. The caller must not change the slice.
func (s *Store) Compiled() []*policy.Compiled { return s.current.Load().compiled }

// Platform returns the current PlatformConfig. It is never nil.
func (s *Store) Platform() *policy.Platform { return s.current.Load().platform }

// Find returns the policy in force with the given key, or nil if no such policy is in force.
func (s *Store) Find(key scaling.Key) *policy.Compiled {
	v := s.current.Load()
	i, ok := slices.BinarySearchFunc(v.compiled, key,
		func(c *policy.Compiled, key scaling.Key) int { return c.Workload.Key.Compare(key) })
	if !ok {
		return nil
	}
	return v.compiled[i]
}

// Changed returns the generation of the policies in force, and a channel that is closed when there is a newer generation.
func (s *Store) Changed() (generation uint64, next <-chan struct{}) {
	v := s.current.Load()
	return v.generation, v.next
}

// Statuses returns the status of every document, and of every object whose annotations define a policy, sorted by document.
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

// Refusal returns why no version of a policy is in force although a file or an object defines the policy. It returns "" in all other cases.
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

// reason returns the first problem of a refused document, or what the document waits for.
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
	defer s.statusRevision.Add(1)
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

// Groups returns the capacity groups in the order of the current PlatformConfig. The pointers do not change until the PlatformConfig
// changes. The caller must not change the groups.
func (s *Store) Groups() []*capacity.Group { return s.current.Load().platform.NodeGroups }
