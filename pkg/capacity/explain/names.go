package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// Names contains the names of a group and its NodePools, as messages use them.
type Names struct {
	Group       string
	Resource    string   // the resource that the group counts
	Devices     bool     // whether the group counts the devices of a DeviceClass
	Selector    string   // the labels of the group's nodes as key=value,key=value; "": the group has NodePools
	MaxNodes    int64    // maxNodes of a group with a Selector; 0: not set
	Pools       []string // the NodePools in the order of the group
	Spot        []string // the NodePools of spot capacity
	Alternative []string // the NodePools that are used instead of spot
}

// pool returns the name of a NodePool of the group. For an index without a NodePool it returns the name of the group.
func (n *Names) pool(i int8) string {
	if i < 0 || int(i) >= len(n.Pools) {
		return n.Group
	}
	return n.Pools[i]
}

// enumerate joins names for a message, as in "a, b and c".
func enumerate(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// phrase is the text that names one or several NodePools in a message: "NodePool a", or "NodePools a and b".
type phrase struct {
	text    string
	several bool
}

// verb returns the form of a verb for the number of NodePools.
func (p phrase) verb(one, several string) string {
	if p.several {
		return several
	}
	return one
}

// one returns the phrase for a single NodePool.
func (n *Names) one(i int8) phrase { return phrase{text: "NodePool " + n.pool(i)} }

// side returns a phrase with all spot NodePools if NodePool i is a spot NodePool. If NodePool i is used instead of spot, the phrase
// contains all NodePools that are used instead of spot. Otherwise the phrase contains only NodePool i.
func (n *Names) side(i int8) phrase {
	switch name := n.pool(i); {
	case slices.Contains(n.Spot, name):
		return n.phrase(n.Spot, i)
	case slices.Contains(n.Alternative, name):
		return n.phrase(n.Alternative, i)
	}
	return n.one(i)
}

// phrase returns the phrase for several NodePools. If the list is empty, it returns the phrase for NodePool i.
func (n *Names) phrase(pools []string, i int8) phrase {
	switch len(pools) {
	case 0:
		return n.one(i)
	case 1:
		return phrase{text: "NodePool " + pools[0]}
	}
	return phrase{text: "NodePools " + enumerate(pools), several: true}
}

// limitName returns the path, below spec, of the limit of the group's resource, such as limits[nvidia.com/gpu].
func (n *Names) limitName() string { return nodepool.FieldLimit.Name(n.Resource) }

// amount returns an amount of the group's resource for a message, such as "3 GPUs". For a resource other than whole GPUs, the result
// contains the name of the resource.
func (n *Names) amount(of float64) string {
	if strings.HasSuffix(n.Resource, "/gpu") {
		return fmt.Sprintf("%.0f %s", of, plural(of, "GPU"))
	}
	return fmt.Sprintf("%.0f %s", of, n.Resource)
}
