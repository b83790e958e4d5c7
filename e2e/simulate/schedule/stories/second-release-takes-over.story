# A second release is installed while the first one does not run, and takes over its records. The first one starts again after two minutes.
#
# The first release finds that another release overrides its NodePools, and does not lead until that one is gone.
mutant: a release leads beside another one
violates: while a release leads and overrides a NodePool, another one does not write it, and leads for at most half a minute
seed: 7

  40s the load of chat becomes 0
 700s a second release is installed, and the first one does not run for two minutes
1000s the load of chat becomes 15
1200s the replica of the second release is killed

expect:
second-0: leads
does not lead: another gpuscaler release
