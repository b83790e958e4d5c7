package nodepool

import "slices"

// View is the observed state of the fields of one NodePool that may be overridden.
type View struct {
	UID     string `json:",omitempty"` // UID of the NodePool
	Record  string // the annotation in which gpuscaler records its overrides; "": none
	Consent Consent
	// RecordOurs is true if the field manager of gpuscaler owns the record annotation. It is false for a NodePool that was created from a
	// copy, for example from a backup.
	RecordOurs bool `json:",omitempty"`

	Limits              []LimitView // every entry of spec.limits
	Weight              FieldView
	ConsolidateAfter    FieldView
	ConsolidationPolicy FieldView
	Budgets             FieldView
}

// FieldView is the observed state of one field of a NodePool's spec.
type FieldView struct {
	Value       Value
	Owner       string // a field manager other than gpuscaler that owns the field; "": none
	Ours        bool   // the field manager of gpuscaler owns the field
	Unsupported bool   // the CRD does not have the field
}

// LimitView is one entry of spec.limits.
//
// Karpenter launches an instance type only if its capacity plus Used is at most the limit. The resource "nodes" limits the number of nodes.
type LimitView struct {
	Resource string
	FieldView
	Used float64 // sum of the resource over the nodes of the NodePool, as Karpenter counts it: cpu in cores, memory in bytes
	Node float64 // amount of the resource in the NodePool's smallest node; 0: unknown
}

// Field returns the observed state of a field. For a limit, the parameter resource is its resource. A limit field that is not in use has
// no resource, and the result is Unsupported.
func (v *View) Field(f Field, resource string) FieldView {
	switch f {
	case FieldWeight:
		return v.Weight
	case FieldConsolidateAfter:
		return v.ConsolidateAfter
	case FieldConsolidationPolicy:
		return v.ConsolidationPolicy
	case FieldBudgets:
		return v.Budgets
	}
	if resource == "" {
		return FieldView{Unsupported: true}
	}
	i := slices.IndexFunc(v.Limits, func(l LimitView) bool { return l.Resource == resource })
	if i < 0 {
		return FieldView{}
	}
	return v.Limits[i].FieldView
}

// Writable reports whether gpuscaler.io/nudge lists the field. The chart's admission policy rejects a write of a field that is not
// listed.
func (v *View) Writable(f Field) bool { return v.Consent&f.Consent() != 0 }

// Consented reports whether the owner allows an override of the field: the field is writable, and gpuscaler.io/nudge does not contain
// restore.
func (v *View) Consented(f Field) bool { return v.Writable(f) && v.Consent&ConsentRestore == 0 }
