package objects

// GroupNodes are the nodes of a capacity group whose nodes are found by their labels.
type GroupNodes struct {
	Nodes          int
	Units, Largest int64    // units of the group's resource on all nodes, and on the largest node
	Near           []string // labels of other nodes that have a key of the group's nodeSelector, but another value, as key=value
}

// Placement describes on which nodes the pods of a workload can run.
type Placement struct {
	Accepted, Elsewhere int    // number of nodes of the group, and of other nodes with the group's resource, that accept the pods
	Taint               string // a taint of the group's nodes that the pods do not tolerate; "": none
	Tolerates           bool   // the pods have tolerations
	Label               string // a label that the pods require and the group's nodes do not have, as key=value; "": none
	LabelOfGroup        bool   // the group's nodeSelector has the key of Label with another value
}
