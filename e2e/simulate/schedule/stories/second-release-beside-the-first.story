# A second release with the same capacity groups is installed by mistake before the first one overrides a NodePool.
#
# The release that overrides a NodePool first keeps it. The other one finds its name on the NodePool and does not write it.
mutant: a NodePool of another release that leads is written
violates: while a release leads and overrides a NodePool, another one does not write it, and leads for at most half a minute
seed: 7

  40s the load of chat becomes 0
  60s a second release is installed

expect:
another gpuscaler release
