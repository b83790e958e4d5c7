# The owner sets another limit after the value was restored and before the ownership was.
on: nodepools

owner creates
replica-0 observes
replica-0 decides for 10m
replica-0 writes
replica-0 observes
replica-0 decides for 1m with a waiting pod
before request 2: owner sets the limit 7
replica-0 writes
replica-0 observes
replica-0 decides for 1m with a waiting pod
replica-0 writes

expect:
owner creates: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "4" -> "0"  (zero limit)
replica-0 apply: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "0" -> "4"  (owner's value restored)
replica-0 patch: ok
owner sets the limit 7: ok
replica-0 patch: Conflict
replica-0 decides: POOL: no field changes, only the annotation with the owner's values
replica-0 apply: ok
watch: added 1, modified 2, modified 3, modified 4, modified 4
NodePool 1, generation 4
  limits: {"cpu":"100","nvidia.com/gpu":"7"}
  weight: 10
  disruption: {"budgets":[{"nodes":"100%"}],"consolidateAfter":"1m","consolidationPolicy":"WhenEmpty"}
  gpuscaler.io/nudge: limits
  Update by kubectl-client-side-apply: metadata.annotations.gpuscaler.io/nudge spec.disruption.budgets spec.disruption.consolidateAfter spec.disruption.consolidationPolicy spec.limits.cpu spec.weight
  Update by kubectl-edit: spec.limits.nvidia.com/gpu
