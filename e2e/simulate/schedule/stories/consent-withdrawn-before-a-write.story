# The owner of a NodePool withdraws the consent between gpuscaler's observation and its write of a zero limit.
#
# The write is based on the observed version, so the API server returns a conflict and the limit stays.
mutant: a patch overwrites a newer edit
violates: gpuscaler changes only the fields that the NodePool's annotation lists at that time, and its own annotations
seed: 6

 125s just before the next write of a NodePool its owner lets gpuscaler override nothing

expect:
the owner of NodePool llm-on-demand lets gpuscaler override ""
apply NodePool llm-on-demand: Operation cannot be fulfilled
