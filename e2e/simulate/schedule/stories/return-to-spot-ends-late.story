# A return to spot takes its last move seven minutes after the last fault, because the moves have a pace.
#
# The end of the return is written to the NodePool in the last minute of the run, in which the model expected no write. The model expects it
# now.
violates: without a change of the load or of an object, only a return to spot writes a NodePool in the last minute
seed: 700131

 174s the load of embed becomes 0
 245s the owner of NodePool rank-on-demand sets the limit to 7
 776s the cloud takes spot node number 467
1026s a newer version writes the records and is rolled back

expect:
group rank: returning
2033.0s replica-0: NodePool rank-on-demand: record or owners
2033.0s replica-0: group rank: prefer spot
