# A replica that led before and the leader write the same override. The second request is based on an older version.
on: nodepools

owner creates
replica-0 observes
replica-1 observes
replica-0 decides for 10m
replica-1 decides for 10m
replica-0 writes
replica-1 writes
replica-1 observes
replica-1 decides for 10m

expect:
owner creates: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "4" -> "0"  (zero limit)
replica-1 decides: POOL spec.limits[nvidia.com/gpu]: "4" -> "0"  (zero limit)
replica-0 apply: ok
replica-1 apply: Conflict
replica-1 decides: POOL: no field changes, only the annotation with the owner's values
watch: added 1, modified 2
NodePool 1, generation 2
  limits: {"cpu":"100","nvidia.com/gpu":"0"}
  weight: 10
  disruption: {"budgets":[{"nodes":"100%"}],"consolidateAfter":"1m","consolidationPolicy":"WhenEmpty"}
  gpuscaler.io/holder: gpuscaler-system/gpuscaler
  gpuscaler.io/nudge: limits
  gpuscaler.io/record: {"v":1,"group":"gpus","resource":"nvidia.com/gpu","fields":[{"path":"/spec/limits/nvidia.com~1gpu","on":true,"value":"\"0\"","original":"\"4\"","owner":"kubectl-client-side-apply/Update","rule":10,"since":1795856700000}]}
  Apply by gpuscaler: metadata.annotations.gpuscaler.io/holder metadata.annotations.gpuscaler.io/record spec.limits.nvidia.com/gpu
  Update by kubectl-client-side-apply: metadata.annotations.gpuscaler.io/nudge spec.disruption.budgets spec.disruption.consolidateAfter spec.disruption.consolidationPolicy spec.limits.cpu spec.weight
