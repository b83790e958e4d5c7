# The owner sets the limit of the override before gpuscaler's apply arrives.
on: nodepools

owner creates
replica-0 observes
replica-0 decides for 10m
before request 1: owner sets the limit 0
replica-0 writes
replica-0 observes
replica-0 decides for 10m

expect:
owner creates: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "4" -> "0"  (zero limit)
owner sets the limit 0: ok
replica-0 apply: Conflict
replica-0 decides: POOL: no field changes, only the annotation with the owner's values
watch: added 1, modified 2
NodePool 1, generation 2
  limits: {"cpu":"100","nvidia.com/gpu":"0"}
  weight: 10
  disruption: {"budgets":[{"nodes":"100%"}],"consolidateAfter":"1m","consolidationPolicy":"WhenEmpty"}
  gpuscaler.io/nudge: limits
  Update by kubectl-client-side-apply: metadata.annotations.gpuscaler.io/nudge spec.disruption.budgets spec.disruption.consolidateAfter spec.disruption.consolidationPolicy spec.limits.cpu spec.weight
  Update by kubectl-edit: spec.limits.nvidia.com/gpu
