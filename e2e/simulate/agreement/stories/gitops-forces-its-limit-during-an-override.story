# A GitOps controller applies its limit by force during an override.
on: nodepools

owner creates
gitops applies the limit 8 with force
replica-0 observes
replica-0 decides for 10m
replica-0 writes
gitops applies the limit 8 with force
replica-0 observes
replica-0 decides for 30s
replica-0 writes
replica-0 observes
replica-0 decides for 5m

expect:
owner creates: ok
gitops applies the limit 8 with force: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "8" -> "0"  (zero limit)
replica-0 apply: ok
gitops applies the limit 8 with force: ok
replica-0 decides: POOL: no field changes, only the annotation with the owner's values
replica-0 apply: ok
replica-0 decides: nothing
watch: added 1, modified 2, modified 3, modified 4, modified 4
NodePool 1, generation 4
  limits: {"cpu":"100","nvidia.com/gpu":"8"}
  weight: 10
  disruption: {"budgets":[{"nodes":"100%"}],"consolidateAfter":"1m","consolidationPolicy":"WhenEmpty"}
  gpuscaler.io/holder: gpuscaler-system/gpuscaler
  gpuscaler.io/nudge: limits
  gpuscaler.io/record: {"v":1,"group":"gpus","resource":"nvidia.com/gpu","fields":[{"path":"/spec/limits/nvidia.com~1gpu","overwrites":1,"yielded":1795856700000,"retry":1795857300000}]}
  Apply by argocd-controller: spec.limits.nvidia.com/gpu
  Apply by gpuscaler: metadata.annotations.gpuscaler.io/holder metadata.annotations.gpuscaler.io/record
  Update by kubectl-client-side-apply: metadata.annotations.gpuscaler.io/nudge spec.disruption.budgets spec.disruption.consolidateAfter spec.disruption.consolidationPolicy spec.limits.cpu spec.weight
