# A zero limit ends, and the field belongs to its owner again. The restore needs two requests.
on: nodepools

owner creates
owner sets the limit 6
replica-0 observes
replica-0 decides for 10m
replica-0 writes
replica-0 observes
replica-0 decides for 1m with a waiting pod
replica-0 writes

expect:
owner creates: ok
owner sets the limit 6: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "6" -> "0"  (zero limit)
replica-0 apply: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "0" -> "6"  (owner's value restored)
replica-0 patch: ok
replica-0 patch: ok
replica-0 apply: ok
watch: added 1, modified 2, modified 3, modified 4, modified 4
NodePool 1, generation 4
  limits: {"cpu":"100","nvidia.com/gpu":"6"}
  weight: 10
  disruption: {"budgets":[{"nodes":"100%"}],"consolidateAfter":"1m","consolidationPolicy":"WhenEmpty"}
  gpuscaler.io/holder: gpuscaler-system/gpuscaler
  gpuscaler.io/nudge: limits
  gpuscaler.io/record: {"v":1,"group":"gpus","resource":"nvidia.com/gpu","fields":[{"path":"/spec/limits/nvidia.com~1gpu","on":true,"value":"\"0\"","original":"\"6\"","owner":"kubectl-edit/Update","rule":10,"since":1795856700000}]}
  Apply by gpuscaler: metadata.annotations.gpuscaler.io/holder metadata.annotations.gpuscaler.io/record
  Update by kubectl-client-side-apply: metadata.annotations.gpuscaler.io/nudge spec.disruption.budgets spec.disruption.consolidateAfter spec.disruption.consolidationPolicy spec.limits.cpu spec.weight
  Update by kubectl-edit: spec.limits.nvidia.com/gpu
