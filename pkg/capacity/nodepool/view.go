package nodepool

// FieldView is the observed state of one field of a NodePool's spec.
type FieldView struct {
	Value       Value
	Owner       string // field manager other than gpuscaler that owns the field; "": none
	Ours        bool   // the field manager of gpuscaler owns it
	Unsupported bool   // the CRD does not have the field
}

// LimitView is one entry of spec.limits.
//
// Karpenter launches an instance type only if its capacity plus Used is at most the limit. The resource "nodes" limits the number of nodes.
type LimitView struct {
	Resource string
	FieldView
	Used float64 // sum of the resource over the nodes of the NodePool, as Karpenter counts it: cpu in cores, memory in bytes
	Node float64 // amount of the resource in the smallest of these nodes; 0: unknown
}
