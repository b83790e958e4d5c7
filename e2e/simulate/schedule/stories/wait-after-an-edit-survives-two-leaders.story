# A leader is paused after it overrides a field, and the owner sets the field to its original value before the next leader reads it.
#
# The next leader does not override the field for ten minutes. This wait was only in its memory, so the second change of the leader ended
# it. The record on the NodePool contains the wait now.
mutant: the wait after an edit to the original value is not recorded
violates: a field to which its owner gave a new value during an override is not changed for ten minutes
seed: 102

 557s the next leader that writes is paused before its first request for 17.5s
 744s the owner of NodePool rank-on-demand sets consolidateAfter to 1m
 821s the next leader that writes is paused after its request number 3 for 30.75s

expect:
the owner of NodePool rank-on-demand sets spec.disruption.consolidateAfter to "1m"
