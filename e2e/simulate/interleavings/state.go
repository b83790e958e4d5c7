package main

import (
	"encoding/binary"
	"slices"
)

// version is one version of the NodePool: its content, as a number in model.contents, and its metadata. Equal contents have the same
// number. The zero version means that the NodePool does not exist.
type version struct {
	content    int32
	serial     int16 // resourceVersion
	generation int16
	uid        int16
}

// exists reports whether the NodePool exists in this version.
func (v version) exists() bool { return v.content != 0 }

// state is one state of the model. Times are relative to the current time, so that states that differ only in their current time are
// equal.
type state struct {
	live     version // the NodePool in the API server
	replicas [2]replica
	holder   int8 // index of the replica that holds the Lease; -1: none
	leaseAge int8 // time since the Lease was written, in steps of 10 s; expiredAge: the Lease has expired
	late     lateRequest
	owner    owner
	demand   bool // a pod waits for a node of the NodePool
	policy   bool // the policy files contain the capacity group
}

// expiredAge is the first age at which a Lease has expired: two steps are 20 s, and the Lease lasts 15 s.
const expiredAge = 2

// replica is one process of gpuscaler.
type replica struct {
	up, leads  bool // leads: the process itself assumes that it leads
	renewed    int8 // time since this process wrote the Lease, in steps of 10 s, at most expiredAge
	cached     version
	seesDemand bool  // the pod is in its cache
	seesPolicy bool  // the loaded files contain the group
	remembers  int16 // UID of the NodePool to which the memory belongs
	memory     int32
	writes     []write // queue of patches; only the first is being sent
}

// leading is the result of the product's option Leading: the process assumes that it leads, and has written the Lease less than 15 s ago.
func (r *replica) leading() bool { return r.leads && r.renewed < expiredAge }

// Values of write.progress.
const (
	notSent  uint8 = iota // not begun, because the process is paused or another write is being sent
	inFlight              // the API server has not received the request
	applied               // the API server has executed or refused the request, but the client has no answer yet
)

// write is a patch that a replica sends. The patch, its base and the inputs determine the requests of the write.
type write struct {
	patch    int32
	base     version
	inputs   []input
	progress uint8
	answer   input // set only if progress is applied
	old      bool  // whether the current request was sent in an earlier time step
}

// Values of input.kind.
const (
	answerObject uint8 = iota + 1
	answerConflict
	answerNotFound
	answerTimeout
	answerInvalid
	cacheRead // the writer has read the NodePool from the cache
)

// input is something that the writer received: the answer to a request, or a NodePool from the cache.
type input struct {
	kind    uint8
	version version
}

// lateRequest is a request whose client no longer waits for the answer: the client timed out or was killed.
type lateRequest struct {
	exists bool
	sender int8
	write  write
}

// owner describes the actions of the owner of the NodePool so far.
type owner struct {
	limit uint8 // index of the owner's limit in limits
	edit  int16 // serial of the last write of the owner
	waits int8  // remaining time after an edit in which gpuscaler must not change the limit, in steps of 10 s, at most editWait
	// unseen is true if the owner edited the limit during an override and no leader has observed the edit yet.
	unseen bool
}

// has reports whether a limit equals the limit that the owner set last.
func (o *owner) has(limit string) bool { return limit == limits[o.limit] }

// versions calls visit for each version in the state. visit may change the version.
func (s *state) versions(visit func(v *version)) {
	if s.live.exists() {
		visit(&s.live)
	}
	for i := range s.replicas {
		r := &s.replicas[i]
		if r.cached.exists() {
			visit(&r.cached)
		}
		for j := range r.writes {
			r.writes[j].versions(visit)
		}
	}
	if s.late.exists {
		s.late.write.versions(visit)
	}
}

func (w *write) versions(visit func(v *version)) {
	visit(&w.base)
	for i := range w.inputs {
		if w.inputs[i].version.exists() {
			visit(&w.inputs[i].version)
		}
	}
	if w.progress == applied && w.answer.version.exists() {
		visit(&w.answer.version)
	}
}

// clone returns a copy that shares no slice with s.
func (s *state) clone() *state {
	c := *s
	for i := range c.replicas {
		c.replicas[i].writes = slices.Clone(c.replicas[i].writes)
		for j := range c.replicas[i].writes {
			w := &c.replicas[i].writes[j]
			w.inputs = slices.Clone(w.inputs)
		}
	}
	c.late.write.inputs = slices.Clone(c.late.write.inputs)
	return &c
}

// normalize renumbers serials, generations and UIDs, because only their order and equality have an effect. Equivalent states are then
// equal.
func (s *state) normalize() {
	var serials, generations, uids []int16
	add := func(all *[]int16, n int16) {
		if !slices.Contains(*all, n) {
			*all = append(*all, n)
		}
	}
	s.versions(func(v *version) {
		add(&serials, v.serial)
		add(&generations, v.generation)
		add(&uids, v.uid)
	})
	for i := range s.replicas {
		add(&uids, s.replicas[i].remembers)
	}
	slices.Sort(serials)
	slices.Sort(generations)
	slices.Sort(uids)
	rank := func(all []int16, n int16) int16 {
		i, _ := slices.BinarySearch(all, n)
		return int16(i + 1)
	}
	for i := range s.replicas {
		r := &s.replicas[i]
		r.remembers = rank(uids, r.remembers)
	}
	// the state may not contain the version of the edit, so only the position of its serial among the other serials is kept
	s.owner.edit = rank(serials, s.owner.edit)
	s.versions(func(v *version) {
		v.serial, v.generation, v.uid = rank(serials, v.serial), rank(generations, v.generation), rank(uids, v.uid)
	})
}

// key returns the encoding of the normalized state. Two states that differ only by exchanged replicas have the same key. swapped is true
// if the key is the encoding of the state with exchanged replicas.
func (s *state) key() (key []byte, swapped bool) {
	a, other := s.encode(), s.swapped()
	b := other.encode()
	if string(b) < string(a) {
		return b, true
	}
	return a, false
}

// swapped returns the state with exchanged replicas.
func (s *state) swapped() *state {
	c := *s
	c.replicas[0], c.replicas[1] = s.replicas[1], s.replicas[0]
	if c.holder >= 0 {
		c.holder = 1 - c.holder
	}
	if c.late.exists {
		c.late.sender = 1 - c.late.sender
	}
	return &c
}

// coder writes or reads the encoding of a state.
type coder struct {
	bytes []byte
	reads bool
}

func number[T ~int8 | ~int16 | ~int32 | ~uint8](c *coder, n *T) {
	if !c.reads {
		c.bytes = binary.AppendVarint(c.bytes, int64(*n))
		return
	}
	v, size := binary.Varint(c.bytes)
	*n, c.bytes = T(v), c.bytes[size:]
}

func (c *coder) flags(all ...*bool) {
	var bits uint8
	for i, b := range all {
		if *b {
			bits |= 1 << i
		}
	}
	number(c, &bits)
	for i, b := range all {
		*b = bits&(1<<i) != 0
	}
}

func (c *coder) version(v *version) {
	number(c, &v.content)
	number(c, &v.serial)
	number(c, &v.generation)
	number(c, &v.uid)
}

func (c *coder) input(in *input) {
	number(c, &in.kind)
	c.version(&in.version)
}

func (c *coder) write(w *write) {
	number(c, &w.patch)
	c.version(&w.base)
	number(c, &w.progress)
	c.input(&w.answer)
	c.flags(&w.old)
	n := uint8(len(w.inputs))
	number(c, &n)
	if c.reads {
		w.inputs = make([]input, n)
	}
	for i := range w.inputs {
		c.input(&w.inputs[i])
	}
}

func (c *coder) replica(r *replica) {
	c.flags(&r.up, &r.leads, &r.seesDemand, &r.seesPolicy)
	number(c, &r.renewed)
	c.version(&r.cached)
	number(c, &r.memory)
	number(c, &r.remembers)
	n := uint8(len(r.writes))
	number(c, &n)
	if c.reads {
		r.writes = make([]write, n)
	}
	for i := range r.writes {
		c.write(&r.writes[i])
	}
}

func (c *coder) state(s *state) {
	c.version(&s.live)
	c.replica(&s.replicas[0])
	c.replica(&s.replicas[1])
	number(c, &s.holder)
	number(c, &s.leaseAge)
	number(c, &s.owner.limit)
	number(c, &s.owner.edit)
	number(c, &s.owner.waits)
	c.flags(&s.demand, &s.policy, &s.late.exists, &s.owner.unseen)
	if s.late.exists {
		number(c, &s.late.sender)
		c.write(&s.late.write)
	}
}

func (s *state) encode() []byte {
	c := coder{bytes: make([]byte, 0, 160)}
	c.state(s)
	return c.bytes
}

func decode(key []byte) *state {
	s := &state{}
	c := coder{bytes: key, reads: true}
	c.state(s)
	return s
}
