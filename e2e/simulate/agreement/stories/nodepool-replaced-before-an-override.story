# The owner deletes the NodePool and creates it again before gpuscaler's apply arrives.
on: nodepools

owner creates
replica-0 observes
replica-0 decides for 10m
before request 1: owner deletes
before request 1: owner creates
replica-0 writes

expect:
owner creates: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "4" -> "0"  (zero limit)
owner deletes: ok
owner creates: ok
replica-0 apply: Conflict
watch: added 1, deleted 1, added 1
NodePool 2, generation 1
  limits: {"cpu":"100","nvidia.com/gpu":"4"}
  weight: 10
  disruption: {"budgets":[{"nodes":"100%"}],"consolidateAfter":"1m","consolidationPolicy":"WhenEmpty"}
  gpuscaler.io/nudge: limits
  Update by kubectl-client-side-apply: metadata.annotations.gpuscaler.io/nudge spec.disruption.budgets spec.disruption.consolidateAfter spec.disruption.consolidationPolicy spec.limits.cpu spec.limits.nvidia.com/gpu spec.weight
