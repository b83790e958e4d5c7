package karpenter

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/discovery"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/openapi"
)

// Schema describes which fields the installed CRD of NodePools has. When an object is written, the API server drops the fields that its CRD
// does not have, without an error.
type Schema struct {
	Known                                                          bool
	Limits, Weight, ConsolidateAfter, ConsolidationPolicy, Budgets bool
	// DoNotDisruptDuration reports whether the installed Karpenter accepts a duration in the annotation karpenter.sh/do-not-disrupt. The CRD
	// does not contain this directly. Every version whose CRD has the consolidation policy Balanced (since Karpenter 1.14) accepts durations,
	// so Balanced is checked instead.
	DoNotDisruptDuration bool
}

// ReadSchema reads the OpenAPI schema of NodePools from the API server. Every account may read it.
func ReadSchema(d discovery.DiscoveryInterface) (Schema, error) {
	paths, err := d.OpenAPIV3().Paths()
	if err != nil {
		return Schema{}, err
	}
	path := "apis/" + NodePoolKind.GroupVersion().String()
	if paths[path] == nil {
		return Schema{}, fmt.Errorf("the API server has no OpenAPI schema of %s", path)
	}
	text, err := paths[path].Schema("application/json")
	if err != nil {
		return Schema{}, err
	}
	return parseSchema(text)
}

func parseSchema(text []byte) (s Schema, err error) {
	var document struct {
		Components struct {
			Schemas map[string]openapi.Property `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return s, err
	}
	for name, root := range document.Components.Schemas {
		spec, ok := root.At("spec")
		if !ok || !strings.HasSuffix(name, "."+NodePoolKind.Kind) {
			continue
		}
		has := func(path ...string) bool { _, ok := spec.At(path...); return ok }
		policy, _ := spec.At("disruption", "consolidationPolicy")
		return Schema{
			Known: true, Limits: has("limits"), Weight: has("weight"), Budgets: has("disruption", "budgets"),
			ConsolidateAfter: has("disruption", "consolidateAfter"), ConsolidationPolicy: has("disruption", "consolidationPolicy"),
			DoNotDisruptDuration: slices.Contains(policy.Enum, any("Balanced")),
		}, nil
	}
	return s, fmt.Errorf("the OpenAPI document has no schema of a %s", NodePoolKind.Kind)
}
