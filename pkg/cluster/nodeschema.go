package cluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/discovery"
)

// nodeSchema is what the installed CRD of NodePools has: a field that it lacks would be pruned without a word.
type nodeSchema struct {
	known                                                          bool
	limits, weight, consolidateAfter, consolidationPolicy, budgets bool
	// shields: this Karpenter reads a duration in do-not-disrupt. No schema says so; Balanced came to the CRD (1.14) after it.
	shields bool
}

// property is the part of an OpenAPI schema that counts here.
type property struct {
	Properties map[string]property `json:"properties"`
	Enum       []any               `json:"enum"`
	AllOf      []property          `json:"allOf"`
}

func (p property) at(path ...string) (property, bool) {
	for _, name := range path {
		next, ok := p.Properties[name]
		for i := 0; !ok && i < len(p.AllOf); i++ {
			next, ok = p.AllOf[i].Properties[name]
		}
		if !ok {
			return property{}, false
		}
		p = next
	}
	return p, true
}

// readNodeSchema asks the API server, which serves to everybody what it checks NodePools by.
func readNodeSchema(d discovery.DiscoveryInterface) (nodeSchema, error) {
	paths, err := d.OpenAPIV3().Paths()
	if err != nil {
		return nodeSchema{}, err
	}
	path := "apis/" + nodePoolKind.GroupVersion().String()
	if paths[path] == nil {
		return nodeSchema{}, fmt.Errorf("the API server describes no %s", path)
	}
	text, err := paths[path].Schema("application/json")
	if err != nil {
		return nodeSchema{}, err
	}
	return parseNodeSchema(text)
}

func parseNodeSchema(text []byte) (s nodeSchema, err error) {
	var document struct {
		Components struct {
			Schemas map[string]property `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return s, err
	}
	for name, root := range document.Components.Schemas {
		spec, ok := root.at("spec")
		if !ok || !strings.HasSuffix(name, "."+nodePoolKind.Kind) {
			continue
		}
		has := func(path ...string) bool { _, ok := spec.at(path...); return ok }
		policy, _ := spec.at("disruption", "consolidationPolicy")
		return nodeSchema{
			known: true, limits: has("limits"), weight: has("weight"), budgets: has("disruption", "budgets"),
			consolidateAfter: has("disruption", "consolidateAfter"), consolidationPolicy: has("disruption", "consolidationPolicy"),
			shields: slices.Contains(policy.Enum, any("Balanced")),
		}, nil
	}
	return s, fmt.Errorf("no schema of a %s", nodePoolKind.Kind)
}
