package override

import (
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// Fields contains the fields of a group's NodePools in one tick: their observed values, their overrides, and the values that rules
// request. A NodePool is identified by its index in the group.
type Fields struct {
	Group
	At        int64 // time of the tick in Unix milliseconds
	Releasing bool  // every field must be restored
	Leaving   bool  // gpuscaler shuts down
	State     *State
	Views     [nodepool.MaxPools]*nodepool.View
	Report    *explain.Report // receives reasons and findings for owners of NodePools and users

	requests [nodepool.MaxPools][nodepool.NumFields]request
}

// Group contains the properties of a capacity group that this package needs.
type Group struct {
	Name, Resource string
	Advisory       bool // no field is overridden; Write only returns the changes that it would otherwise make
	CountsDevices  bool // the group's resource is a DeviceClass, for which a limit has no effect
}

// request is the value that a rule needs for one field in this tick.
type request struct {
	on    bool
	value nodepool.Value
	rule  explain.Rule
}

// Original returns the value that a field has without the override. If the owner withdrew the consent, gpuscaler cannot end the override,
// so the result is the overridden value.
func (fs *Fields) Original(pool int, f nodepool.Field) nodepool.Value {
	if o := &fs.State.Pools[pool].Overrides[f]; o.On && fs.Views[pool].Writable(f) {
		return o.Original
	}
	v := fs.view(pool, f).Value
	if f == nodepool.FieldBudgets {
		v, _ = statemachine.WithoutFreeze(v)
	}
	return v
}

// Effective returns the value that a field has in this tick: the value that an earlier rule of the tick requested or, without a request,
// the original value.
func (fs *Fields) Effective(pool int, f nodepool.Field) nodepool.Value {
	if r := &fs.requests[pool][f]; r.on {
		return r.value
	}
	return fs.Original(pool, f)
}

// view returns the observed state of a field.
func (fs *Fields) view(pool int, f nodepool.Field) nodepool.FieldView {
	return fs.Views[pool].Field(f, fs.State.Limits.Resource(f))
}

// MayOverride reports whether Write would override the field if a rule requested a value in this tick.
func (fs *Fields) MayOverride(pool int, f nodepool.Field) bool {
	p := &fs.State.Pools[pool]
	return !fs.Advisory && fs.Views[pool].Consented(f) && !fs.view(pool, f).Unsupported && fs.At >= p.Overrides[f].Retry && p.newer == nil
}

// Request requests a value for a field on behalf of a rule. If several rules request a value for the same field, the last request is
// used. A limit for devices of a DeviceClass is ignored, because it would have no effect.
func (fs *Fields) Request(pool int, f nodepool.Field, v nodepool.Value, rule explain.Rule) {
	if f == nodepool.FieldLimit && fs.CountsDevices {
		return
	}
	fs.requests[pool][f] = request{on: true, value: v, rule: rule}
}

// RequestNumber requests a number for a limit or a weight. If the override already has this number, its text is reused, so that a tick
// without changes allocates no memory.
func (fs *Fields) RequestNumber(pool int, f nodepool.Field, n int64, rule explain.Rule) {
	if o := &fs.State.Pools[pool].Overrides[f]; o.On {
		if current, ok := o.To.Number(); ok && current == n {
			fs.Request(pool, f, o.To, rule)
			return
		}
	}
	fs.Request(pool, f, f.Number(n), rule)
}

// DropLimits removes all requests for limits, so that every limit is restored. Shutdown uses it, because no controller would remove the
// limits later.
func (fs *Fields) DropLimits() {
	for i := range fs.requests {
		for f := nodepool.FieldLimit; f < nodepool.NumFields; f++ {
			fs.requests[i][f] = request{}
		}
	}
}
