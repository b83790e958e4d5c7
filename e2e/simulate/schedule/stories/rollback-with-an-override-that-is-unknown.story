# A newer version overrides a field that the current version does not know, and is rolled back.
#
# The current version restores its own fields. It keeps the unknown field and the record, so that the newer version can restore the field.
mutant: an apply to a NodePool with a newer record drops the unknown override
violates: gpuscaler changes only the fields that the NodePool's annotation lists at that time, and its own annotations
seed: 2

  40s the load of chat becomes 0
 700s a newer version that overrides another field writes the records and is rolled back
 900s the load of chat becomes 15

expect:
a newer version of gpuscaler writes the record of NodePool llm-on-demand
708.0s replica-0: NodePool llm-on-demand: spec.limits.nvidia.com/gpu "0" -> "6"
1560.0s the newer version of gpuscaler restores NodePool llm-on-demand
1561.0s replica-0: NodePool llm-on-demand: spec.limits.nvidia.com/gpu "6" -> "0"
