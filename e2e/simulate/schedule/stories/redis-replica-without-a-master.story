# A replica of Redis has lost its master, so the length of its queue does not change. Then the leader ends.
#
# The next leader must not use this length: its first targets keep the replicas that it finds until the master is connected again.
mutant: a replica of Redis without a master is trusted
violates: a target decreases only while each signal of the policy has a sample that is at most two minutes old
seed: 3

  35s Redis is a replica without a master for 4m33s
  57s replica-0 receives SIGTERM

expect:
replica-1: leads
