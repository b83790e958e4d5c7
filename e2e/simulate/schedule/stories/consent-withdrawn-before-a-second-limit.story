# The owner of a NodePool withdraws the consent for limits between gpuscaler's observation and its write of another limit.
#
# The write fails with a conflict, so the NodePool still has gpuscaler's earlier limit. gpuscaler forgot this override, because the value was
# not the one of its last write. Its next server-side apply did not contain the limit, so the API server removed the limit, and the record of
# the owner's value was lost. The override now stays until the owner consents again.
mutant: the override of a failed write without consent is forgotten
violates: gpuscaler changes only the fields that the NodePool's annotation lists at that time, and its own annotations
seed: 861141

 609s the load of batch becomes 40
 913s Prometheus has times ahead (utilization) for 1m45s
1003s Prometheus is truncated (queue) for 30s
1009s the load of embed becomes 70
1131s the load of embed becomes 40
1263s just before the next write of a NodePool its owner lets gpuscaler override weight and disruption

expect:
the owner of NodePool rank-on-demand lets gpuscaler override "weight,disruption"
apply NodePool rank-on-demand: Operation cannot be fulfilled
