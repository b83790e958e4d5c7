# The owner of a NodePool sets the weight to 30, while gpuscaler is about to write the same value because a schedule opens.
#
# The API server returns a conflict, and the next observation shows 30. gpuscaler took this value for its own override, recorded the weight
# 10 as the owner's value, and restored 10 at the end of the schedule. The value counts as an edit of the owner now.
mutant: a value that an owner set before gpuscaler's write counts as gpuscaler's
violates: a NodePool whose field gpuscaler changed has a record that contains the owner's present value
seed: 710196

 313s just before the next write of a NodePool its owner sets the weight to 30

expect:
360.0s the owner of NodePool rank-on-demand sets spec.weight to 30
NodePool rank-on-demand: spec.disruption.consolidateAfter "1m" -> "Never"
NodePool rank-on-demand: spec.disruption.consolidateAfter "Never" -> "1m"
