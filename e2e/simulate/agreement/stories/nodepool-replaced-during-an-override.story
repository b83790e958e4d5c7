# The owner deletes the NodePool with its record during an override and creates it again. The successor has the owner's limit.
on: nodepools

owner creates
replica-0 observes
replica-0 decides for 10m
replica-0 writes
owner deletes
replica-0 observes
replica-0 decides for 5s
owner creates
replica-0 observes
replica-0 decides for 10m
replica-0 writes

expect:
owner creates: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "4" -> "0"  (zero limit)
replica-0 apply: ok
owner deletes: ok
replica-0 decides: nothing
owner creates: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "4" -> "0"  (zero limit)
replica-0 apply: ok
watch: added 1, modified 2, deleted 2, added 1, modified 2
NodePool 2, generation 2
  limits: {"cpu":"100","nvidia.com/gpu":"0"}
  weight: 10
  disruption: {"budgets":[{"nodes":"100%"}],"consolidateAfter":"1m","consolidationPolicy":"WhenEmpty"}
  gpuscaler.io/holder: gpuscaler-system/gpuscaler
  gpuscaler.io/nudge: limits
  gpuscaler.io/record: {"v":1,"group":"gpus","resource":"nvidia.com/gpu","fields":[{"path":"/spec/limits/nvidia.com~1gpu","on":true,"value":"\"0\"","original":"\"4\"","owner":"kubectl-client-side-apply/Update","rule":10,"since":1795856706000}]}
  Apply by gpuscaler: metadata.annotations.gpuscaler.io/holder metadata.annotations.gpuscaler.io/record spec.limits.nvidia.com/gpu
  Update by kubectl-client-side-apply: metadata.annotations.gpuscaler.io/nudge spec.disruption.budgets spec.disruption.consolidateAfter spec.disruption.consolidationPolicy spec.limits.cpu spec.weight
