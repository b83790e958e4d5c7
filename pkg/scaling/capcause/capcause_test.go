package capcause

import "testing"

// Each text must name the object to look at, the number that was reached, and how much of it is used by pods that no policy manages.
func TestTextNamesTheObjectAndTheNumbers(t *testing.T) {
	gpu := func(p Pool) Cause { p.Name = "gpu-spot"; return Cause{Resource: "nvidia.com/gpu", Pools: []Pool{p}} }
	fleet := func(p Pool) Cause {
		return Cause{Resource: "nvidia.com/gpu", Selector: "pool=a100", Pools: []Pool{p}}
	}
	mig := gpu(Pool{Kind: Limit, Limited: "nvidia.com/mig-1g.10gb", Limit: 7, Used: 7, Units: 7, Unmanaged: 3})
	mig.Resource = "nvidia.com/mig-1g.10gb"
	two := gpu(Pool{Kind: Refused, Refused: 3})
	two.Pools = append(two.Pools, Pool{Name: "gpu-on-demand", Kind: Limit, Limited: "nodes", Limit: 1, Used: 1})
	for _, c := range []struct {
		cause Cause
		want  string
	}{
		{gpu(Pool{Kind: Limit, Limited: "nvidia.com/gpu", Limit: 8, Used: 8, Units: 8, Unmanaged: 2}),
			"NodePool gpu-spot is at its owner's limit of 8 GPUs, 2 of them used by pods that no policy of the group manages"},
		{gpu(Pool{Kind: Limit, Limited: "nvidia.com/gpu", Limit: 12, Used: 8, Units: 8}),
			"NodePool gpu-spot has 8 GPUs, and its owner's limit of 12 GPUs allows no further node"},
		{gpu(Pool{Kind: Limit, Limited: "nvidia.com/gpu", Limit: 12, Used: 8, Units: 8, Waiting: 8}),
			"NodePool gpu-spot has 8 GPUs, and its owner's limit of 12 GPUs allows no node for a pod with 8 GPUs"},
		{gpu(Pool{Kind: Limit, Limited: "nvidia.com/gpu", Left: true}),
			"NodePool gpu-spot is at a limit of 0 GPUs, which gpuscaler set and may no longer change: " +
				"gpuscaler.io/nudge does not list limits any more"},
		{gpu(Pool{Kind: Limit, Limited: "nvidia.com/gpu", Limit: 0, Scheduled: true}),
			"NodePool gpu-spot is at the limit of an open schedule, 0 GPUs"},
		{gpu(Pool{Kind: Limit, Limited: "cpu", Limit: 64, Used: 60.5, Units: 8, Unmanaged: 1}),
			"NodePool gpu-spot has 60.5 CPUs, and its owner's limit of 64 CPUs allows no further node, " +
				"1 GPU used by pods that no policy of the group manages"},
		{gpu(Pool{Kind: Limit, Limited: "memory", Limit: 256 << 30, Used: 256 << 30, Units: 8}),
			"NodePool gpu-spot is at its owner's limit of 256 GiB of memory"},
		{gpu(Pool{Kind: Limit, Limited: "spec.replicas", Limit: 3, Used: 3, Units: 24, Unmanaged: 8}),
			"NodePool gpu-spot is static, with spec.replicas 3, so Karpenter launches no further node, " +
				"8 GPUs used by pods that no policy of the group manages"},
		{mig, "NodePool gpu-spot is at its owner's limit of 7 nvidia.com/mig-1g.10gb, " +
			"3 of them used by pods that no policy of the group manages"},
		{two, "3 launches failed for lack of capacity in NodePool gpu-spot, and NodePool gpu-on-demand is at its owner's limit of 1 node"},
		{gpu(Pool{Kind: NotReady}), "NodePool gpu-spot is not Ready"},
		{gpu(Pool{Kind: Reservation, Units: 4}),
			"the reservation of NodePool gpu-spot has no free instance: pods wait, and Karpenter launches no node there"},
		{fleet(Pool{Kind: Maximum, Limited: "maxNodes", Limit: 4, Used: 4, Units: 32, Unmanaged: 16}),
			"the nodes with the labels pool=a100 are 4, and maxNodes is 4, 16 GPUs used by pods that no policy of the group manages"},
		{fleet(Pool{Kind: Maximum, Limited: "maxCapacity", Limit: 30, Used: 24, Units: 24}),
			"the nodes with the labels pool=a100 have 24 GPUs, and maxCapacity is 30"},
		{fleet(Pool{Kind: Maximum, Units: 24}),
			"the nodes with the labels pool=a100 have 24 GPUs, and neither maxNodes nor maxCapacity is set"},
		{fleet(Pool{Kind: NoNewNode}), "pods wait, and no node with the labels pool=a100 was added for 15 minutes"},
		{fleet(Pool{Kind: Infeasible}), "no node with the labels pool=a100 can have space for a replica: its CapacityBuffer reports Infeasible"},
		{gpu(Pool{Kind: Infeasible}), "no node of NodePool gpu-spot can have space for a replica: its CapacityBuffer reports Infeasible"},
		{gpu(Pool{}), "NodePool gpu-spot provides no node"},
	} {
		if got := c.cause.Text(); got != c.want {
			t.Errorf("%q\nwant %q", got, c.want)
		}
	}
	if got := (numKinds + 3).String(); got != "infeasible" {
		t.Errorf("an undefined kind: %q", got)
	}
}
