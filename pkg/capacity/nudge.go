package capacity

import "time"

// nudge is one field of one NodePool that we hold, or held and yielded.
type nudge struct {
	on         bool
	releasing  bool
	seen       bool  // the value was observed in force
	to         Value // what we wrote last
	before     Value // what stood there before that, which an observation may still show
	original   Value // what goes back
	owner      string
	rule       Rule
	at, since  int64 // last write, and first
	overwrites uint8
	yielded    int64 // when somebody else's edit won last
	retry      int64 // not before; 0: free
}

const (
	// tighten is the least time between two writes of a field that make less possible. Each spec write resets
	// NodeRegistrationHealthy, and a limit that followed every node would reset it for good.
	tighten = 2 * time.Minute
	// yield is how long a field is left alone after somebody else's edit, backOff after the third.
	yield   = 10 * time.Minute
	backOff = 6 * time.Hour
	// forget is how long an edit counts towards the third.
	forget        = 3 * time.Hour
	maxOverwrites = 3
)

// adopt takes up what the records of the NodePools say: of each NodePool that is seen for the first time, and of fields that are ours
// and that we know nothing of, because the first view was older than the last write of the leader before us.
func (t *tick) adopt() {
	for i := range t.views() {
		p, v := &t.s.pools[i], &t.o.Pools[i]
		if !v.Exists {
			continue
		}
		for j := range v.Limits {
			if l := &v.Limits[j]; l.Ours && l.Resource != "" {
				t.s.limit(l.Resource) // a limit that another version of the group set
			}
		}
		var unknown fieldSet
		for f := range numFields {
			if !p.nudges[f].on && (!p.adopted || t.view(i, f).Ours) {
				unknown |= 1 << f
			}
		}
		if unknown == 0 {
			continue
		}
		p.adopted, p.stale = true, true
		if !t.s.load(i, v.Record, unknown) {
			t.find(Finding{Kind: FindRecord, Pool: int8(i)})
		}
		for f := range numFields {
			// A record comes with its value in one apply: what is not ours any more was edited while nobody was there.
			n, view := &p.nudges[f], t.view(i, f)
			switch own := view.Value; {
			case unknown&(1<<f) == 0 || !n.on || view.Ours:
			case own.same(n.original):
				// By a person, or by a restore that died half-way: it is left alone for a while, and held against nobody.
				*n = nudge{overwrites: n.overwrites, yielded: n.yielded, retry: t.at + yield.Milliseconds()}
			default:
				n.seen = true
			}
		}
	}
}

// settle compares every field that we hold with what the cluster shows.
func (t *tick) settle() {
	for i := range t.views() {
		v := &t.o.Pools[i]
		if !v.Exists {
			// A NodePool that was deleted took our nudges with it.
			t.s.pools[i] = poolState{}
			continue
		}
		for f := range numFields {
			n, view := &t.s.pools[i].nudges[f], t.view(i, f)
			if n.on {
				t.settleField(i, f, n, view)
			} else if n.overwrites > 0 && t.at-n.yielded > forget.Milliseconds() && t.at >= n.retry {
				*n = nudge{}
				t.s.pools[i].stale = true
			}
		}
	}
}

func (t *tick) settleField(pool int, f Field, n *nudge, view FieldView) {
	own := view.Value
	switch {
	case !t.writable(pool, f) && own.same(n.to):
		n.seen, n.releasing = true, false // it stays until its owner lists the field again
	case !t.writable(pool, f):
		*n = nudge{} // its owner changed it; no write of ours can have followed the loss of consent
		t.s.pools[pool].stale = true
	case n.releasing && own.same(n.original) && !view.Ours:
		*n = nudge{overwrites: n.overwrites, yielded: n.yielded, retry: n.retry}
		t.s.pools[pool].stale = true
	case n.releasing && own.same(n.original):
		// The value is back; our ownership is not gone yet.
	case own.same(n.to):
		n.seen = true
	case own.same(n.before) && (n.releasing || !n.seen && !t.undone(pool, f, n, view)):
		// Not applied yet, or the cache is behind.
	case f == FieldBudgets && t.around(n, own):
		// Somebody edited the list around our entries: theirs is the new original, ours stay.
		n.original, _ = stripped(own)
		n.to, n.seen = own, true
		t.s.pools[pool].stale = true
	case view.Ours:
		// Not what we remember, and still ours: a leader before us wrote it after the view that we started from. Its record knows.
		*n = nudge{}
		t.s.load(pool, t.o.Pools[pool].Record, 1<<f)
	default:
		t.lose(pool, f, n, view)
	}
}

// undone tells that a write of ours arrived although its value was never seen: the record came with it, and the value is somebody
// else's. Argo CD heals itself faster than a cache is filled.
func (t *tick) undone(pool int, f Field, n *nudge, view FieldView) bool {
	if view.Ours {
		return false
	}
	r, _ := parse(t.o.Pools[pool].Record)
	for i := range r.Fields {
		if at, known := t.s.fieldAt(r.Fields[i].Path); known && at == f {
			return !r.Fields[i].Released && r.Fields[i].Since == n.since && r.Fields[i].Value.same(n.to)
		}
	}
	return false
}

// around tells whether the list still holds entries of a hold.
func (t *tick) around(n *nudge, list Value) bool {
	_, ours := stripped(list)
	return ours && !n.releasing
}

// lose lets somebody else's edit win: it stays, it is what there is from now on, and the field is left alone for a while.
func (t *tick) lose(pool int, f Field, n *nudge, view FieldView) {
	lost := nudge{overwrites: min(n.overwrites+1, maxOverwrites), yielded: t.at, retry: t.at + yield.Milliseconds()}
	if lost.overwrites >= maxOverwrites {
		lost.retry = t.at + backOff.Milliseconds()
	}
	if n.releasing {
		lost = nudge{overwrites: n.overwrites, yielded: n.yielded, retry: n.retry}
	}
	*n = lost
	t.s.pools[pool].stale = true
}

// original is the value that the field has without an override. An override that its owner no longer lets us end counts as the owner's
// own value, since it stays.
func (t *tick) original(pool int, f Field) Value {
	if n := &t.s.pools[pool].nudges[f]; n.on && t.writable(pool, f) {
		return n.original
	}
	v := t.view(pool, f).Value
	if f == FieldBudgets {
		v, _ = stripped(v)
	}
	return v
}

// effective is what a field is with what the rules want so far.
func (t *tick) effective(pool int, f Field) Value {
	if w := &t.wants[pool][f]; w.on {
		return w.value
	}
	return t.original(pool, f)
}

// yielded reports a field that somebody else's edit won.
func (t *tick) yielded(pool int, f Field, n *nudge) {
	if t.at >= n.retry {
		return
	}
	t.because(Reason{Rule: RuleForeignEdit, Pool: int8(pool), Name: f.Name(t.s.resource(f)), A: float64(n.overwrites), Until: instant(n.retry)})
	if n.overwrites >= maxOverwrites {
		t.find(Finding{Kind: FindContested, Pool: int8(pool), Field: f, Resource: t.s.resource(f), Count: int(n.overwrites), Until: instant(n.retry)})
	}
}
