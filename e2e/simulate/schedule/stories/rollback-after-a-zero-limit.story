# A newer version sets zero limits and is rolled back. Its record has a version that the current version does not know.
#
# The current version restores the values that it can read from the record, and overrides nothing until the record is gone.
mutant: a record of a newer version counts as unreadable
violates: while a NodePool has a record of a newer version, gpuscaler only restores its owner's values, and keeps the record
seed: 2

  40s the load of chat becomes 0
 700s a newer version writes the records and is rolled back

expect:
NodePool llm-on-demand: spec.limits.nvidia.com/gpu "6" -> "0"
a newer version of gpuscaler writes the record of NodePool llm-on-demand
708.0s replica-0: NodePool llm-on-demand: spec.limits.nvidia.com/gpu "0" -> "6"
828.0s replica-0: NodePool llm-on-demand: spec.limits.nvidia.com/gpu "6" -> "0"
