package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/lab"
	"github.com/gpuscaler/gpuscaler/e2e/karpenter"
)

// karpenterFaults are failures of Karpenter while the adapter overrides fields of NodePools.
var karpenterFaults = []fault{
	{name: "karpenter-restarted", what: "Karpenter is killed and restarts after 1 s, while a capacity group has its NodePools.",
		inject: ofKarpenter(kill)},
	{name: "karpenter-frozen", what: "Karpenter is suspended, while a capacity group has its NodePools.", inject: ofKarpenter(suspend)},
}

// karpenterProcess is the name of Karpenter's process.
const karpenterProcess = "karpenter"

// ofKarpenter applies an action to the process of Karpenter. If Karpenter does not run yet, the fault starts it first.
func ofKarpenter(act action) inject {
	return func(ctx context.Context, l *lab.Lab) (repair, error) {
		if l.Parts.UseKarpenter == nil {
			return nil, lab.NotApplicable("it does not use Karpenter")
		}
		if l.Stack.Process(karpenterProcess) == nil {
			if err := errors.Join(startKarpenter(l.Lifetime, l), l.Parts.UseKarpenter()); err != nil {
				return nil, err
			}
			hold(ctx, 5*time.Second) // time for the adapter to read its new configuration and to use the NodePools
		}
		return act(l, l.Stack.Process(karpenterProcess))
	}
}

// startKarpenter starts Karpenter with a spot and an on-demand NodePool. Until ctx ends, it restarts Karpenter whenever it exits.
func startKarpenter(ctx context.Context, l *lab.Lab) error {
	if _, err := karpenter.Start(ctx, l.Stack, karpenter.Options{InstanceTypes: []karpenter.InstanceType{
		{Name: "g6e.xlarge", GPUs: 1, Prices: map[string]float64{"spot": 0.78, "on-demand": 1.861}},
	}}); err != nil {
		return err
	}
	go l.Supervise(ctx, karpenterProcess)
	for _, kind := range []string{"spot", "on-demand"} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(nodePool(kind)), &u.Object); err != nil {
			return err
		}
		if err := l.Stack.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("flux")); err != nil {
			return err
		}
	}
	return nil
}

func nodePool(kind string) string {
	return fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu-%[1]s
  annotations: {gpuscaler.io/nudge: "limits,weight,disruption"}
spec:
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s, budgets: [{nodes: 100%%}]}
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [%[1]s]}
`, kind)
}
