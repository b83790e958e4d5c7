# The owner removes all annotations during an override: the consent and the record with the original limit are lost.
on: nodepools

owner creates
replica-0 observes
replica-0 decides for 10m
replica-0 writes
owner removes the annotations
replica-0 observes
replica-0 decides for 10m

expect:
owner creates: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "4" -> "0"  (zero limit)
replica-0 apply: ok
owner removes the annotations: ok
replica-0 decides: nothing
watch: added 1, modified 2, modified 2
NodePool 1, generation 2
  limits: {"cpu":"100","nvidia.com/gpu":"0"}
  weight: 10
  disruption: {"budgets":[{"nodes":"100%"}],"consolidateAfter":"1m","consolidationPolicy":"WhenEmpty"}
  Apply by gpuscaler: spec.limits.nvidia.com/gpu
  Update by kubectl-client-side-apply: spec.disruption.budgets spec.disruption.consolidateAfter spec.disruption.consolidationPolicy spec.limits.cpu spec.weight
