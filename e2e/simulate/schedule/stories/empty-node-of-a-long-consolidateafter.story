# The model was wrong: the owner's consolidateAfter is two minutes, so the node that a return to spot emptied is deleted two minutes after the
# return. A minute later, the limit of its NodePool becomes 0. This write is not a write of a quiet cluster.
violates: without a change of the load or of an object, only a return to spot writes a NodePool in the last minute
seed: 860858

 589s the cloud takes spot node number 422
 597s the owner of NodePool rank-spot deletes it and creates it again
1181s the owner of NodePool rank-on-demand sets consolidateAfter to 2m
