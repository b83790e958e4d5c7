# The owner removes the limit before the restore arrives. The JSON patch replaces a field that does not exist.
on: nodepools

owner creates
replica-0 observes
replica-0 decides for 10m
replica-0 writes
replica-0 observes
replica-0 decides for 1m with a waiting pod
before request 1: owner removes the limit
replica-0 writes
replica-0 observes
replica-0 decides for 1m with a waiting pod
replica-0 writes

expect:
owner creates: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "4" -> "0"  (zero limit)
replica-0 apply: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "0" -> "4"  (owner's value restored)
owner removes the limit: ok
replica-0 patch: Conflict
replica-0 decides: POOL: no field changes, only the annotation with the owner's values
replica-0 apply: ok
watch: added 1, modified 2, modified 3, modified 3
NodePool 1, generation 3
  limits: {"cpu":"100"}
  weight: 10
  disruption: {"budgets":[{"nodes":"100%"}],"consolidateAfter":"1m","consolidationPolicy":"WhenEmpty"}
  gpuscaler.io/nudge: limits
  Update by kubectl-client-side-apply: metadata.annotations.gpuscaler.io/nudge spec.disruption.budgets spec.disruption.consolidateAfter spec.disruption.consolidationPolicy spec.limits.cpu spec.weight
