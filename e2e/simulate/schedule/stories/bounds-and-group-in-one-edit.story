# One edit of the policy files removes a capacity group and raises the minReplicas of a workload that has no replica.
#
# Between the load of the files and the next tick, the last decision was served: the target 0 with a minimum of 1. A decision that precedes
# the files in force is served within their bounds now.
mutant: a target is served outside of new bounds until the next tick
violates: a served target is within the bounds and the open schedules of the policy files that the replica has loaded
seed: 6

1310s group llm is removed from the PlatformConfig, and the bounds of batch become 1 to 7

expect:
group llm is removed from the PlatformConfig, and the bounds of batch become 1 to 7
target of batch from 0 to 1
