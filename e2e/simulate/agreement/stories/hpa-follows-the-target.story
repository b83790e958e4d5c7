# The HPA follows gpuscaler's target within its bounds of 2 and 20.
on: hpa

the target becomes 5
settled
the target becomes 30
settled
the target becomes 3
settled
the target becomes 0
settled

expect:
the target becomes 5
settled: 5 replicas, 5 pods
the target becomes 30
settled: 20 replicas, 20 pods
the target becomes 3
settled: 3 replicas, 3 pods
the target becomes 0
settled: 2 replicas, 2 pods
