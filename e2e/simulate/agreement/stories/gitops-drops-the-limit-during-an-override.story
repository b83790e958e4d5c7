# A GitOps controller no longer applies the limit during an override: the field stays, because gpuscaler owns it too.
on: nodepools

owner creates
owner removes the limit
gitops applies the limit 8
replica-0 observes
replica-0 decides for 10m
replica-0 writes
gitops applies no limit
replica-0 observes
replica-0 decides for 1m with a waiting pod
replica-0 writes

expect:
owner creates: ok
owner removes the limit: ok
gitops applies the limit 8: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "8" -> "0"  (zero limit)
replica-0 apply: ok
gitops applies no limit: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "0" -> "8"  (owner's value restored)
replica-0 patch: ok
replica-0 patch: ok
replica-0 apply: ok
watch: added 1, modified 2, modified 3, modified 4, modified 5, modified 5
NodePool 1, generation 5
  limits: {"cpu":"100","nvidia.com/gpu":"8"}
  weight: 10
  disruption: {"budgets":[{"nodes":"100%"}],"consolidateAfter":"1m","consolidationPolicy":"WhenEmpty"}
  gpuscaler.io/holder: gpuscaler-system/gpuscaler
  gpuscaler.io/nudge: limits
  gpuscaler.io/record: {"v":1,"group":"gpus","resource":"nvidia.com/gpu","fields":[{"path":"/spec/limits/nvidia.com~1gpu","on":true,"value":"\"0\"","original":"\"8\"","owner":"argocd-controller/Apply","rule":10,"since":1795856700000}]}
  Apply by argocd-controller: spec.limits.nvidia.com/gpu
  Apply by gpuscaler: metadata.annotations.gpuscaler.io/holder metadata.annotations.gpuscaler.io/record
  Update by kubectl-client-side-apply: metadata.annotations.gpuscaler.io/nudge spec.disruption.budgets spec.disruption.consolidateAfter spec.disruption.consolidationPolicy spec.limits.cpu spec.weight
