# The owner deletes the NodePool before gpuscaler's apply arrives. A server-side apply can create an object; this one must not.
on: nodepools

owner creates
replica-0 observes
replica-0 decides for 10m
before request 1: owner deletes
replica-0 writes

expect:
owner creates: ok
replica-0 decides: POOL spec.limits[nvidia.com/gpu]: "4" -> "0"  (zero limit)
owner deletes: ok
replica-0 apply: Conflict
watch: added 1, deleted 1
no NodePool
