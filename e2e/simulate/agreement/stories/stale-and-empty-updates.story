# An update with an old resourceVersion conflicts, one that changes nothing writes nothing, and a NodePool cannot be created twice.
on: nodepools

owner creates
owner reads
owner sets the weight 20
owner sets the weight 30 of what it read
owner changes nothing
owner creates
gitops applies the weight 20
gitops applies the weight 40
owner deletes
owner deletes
gitops applies the limit 8

expect:
owner creates: ok
owner sets the weight 20: ok
owner sets the weight 30: Conflict
owner changes nothing: ok
owner creates: AlreadyExists
gitops applies the weight 20: ok
gitops applies the weight 40: Conflict
owner deletes: ok
owner deletes: NotFound
gitops applies the limit 8: Invalid
watch: added 1, modified 2, modified 2, deleted 2
no NodePool
