# The owner removes spec.limits before the restore arrives.
on: nodepools

owner creates
replica-0 observes
replica-0 decides for 10m
replica-0 writes
replica-0 observes
replica-0 decides for 1m with a waiting pod
before request 1: owner removes all limits
replica-0 writes

expect:
owner creates: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "4" -> "0"  (zero limit)
replica-0 apply: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "0" -> "4"  (owner's value restored)
owner removes all limits: ok
replica-0 patch: Invalid
watch: added 1, modified 2, modified 3
NodePool 1, generation 3
  weight: 10
  disruption: {"budgets":[{"nodes":"100%"}],"consolidateAfter":"1m","consolidationPolicy":"WhenEmpty"}
  gpuscaler.io/holder: gpuscaler-system/gpuscaler
  gpuscaler.io/nudge: limits
  gpuscaler.io/record: {"v":1,"group":"gpus","resource":"nvidia.com/gpu","fields":[{"path":"/spec/limits/nvidia.com~1gpu","on":true,"value":"\"0\"","original":"\"4\"","owner":"kubectl-client-side-apply/Update","rule":10,"since":1795856700000}]}
  Apply by gpuscaler: metadata.annotations.gpuscaler.io/holder metadata.annotations.gpuscaler.io/record
  Update by kubectl-client-side-apply: metadata.annotations.gpuscaler.io/nudge spec.disruption.budgets spec.disruption.consolidateAfter spec.disruption.consolidationPolicy spec.weight
