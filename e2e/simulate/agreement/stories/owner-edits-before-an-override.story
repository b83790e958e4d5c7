# The owner edits the limit after gpuscaler observed the NodePool and before its apply arrives.
on: nodepools

owner creates
replica-0 observes
replica-0 decides for 10m
before request 1: owner sets the limit 6
replica-0 writes
replica-0 observes
replica-0 decides for 10m
replica-0 writes

expect:
owner creates: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "4" -> "0"  (zero limit)
owner sets the limit 6: ok
replica-0 apply: Conflict
replica-0 decides: POOL: no field changes, only the annotation with the owner's values
replica-0 apply: ok
watch: added 1, modified 2, modified 2
NodePool 1, generation 2
  limits: {"cpu":"100","nvidia.com/gpu":"6"}
  weight: 10
  disruption: {"budgets":[{"nodes":"100%"}],"consolidateAfter":"1m","consolidationPolicy":"WhenEmpty"}
  gpuscaler.io/holder: gpuscaler-system/gpuscaler
  gpuscaler.io/nudge: limits
  gpuscaler.io/record: {"v":1,"group":"gpus","resource":"nvidia.com/gpu","fields":[{"path":"/spec/limits/nvidia.com~1gpu","overwrites":1,"yielded":1795856700000,"retry":1795857300000}]}
  Apply by gpuscaler: metadata.annotations.gpuscaler.io/holder metadata.annotations.gpuscaler.io/record
  Update by kubectl-client-side-apply: metadata.annotations.gpuscaler.io/nudge spec.disruption.budgets spec.disruption.consolidateAfter spec.disruption.consolidationPolicy spec.limits.cpu spec.weight
  Update by kubectl-edit: spec.limits.nvidia.com/gpu
