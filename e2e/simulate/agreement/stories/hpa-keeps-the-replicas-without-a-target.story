# gpuscaler serves no target: the HPA keeps the replicas, also those that kubectl sets.
on: hpa

the target becomes 5
settled
the target is missing
settled
kubectl scales to 8
settled
the target becomes 4
settled

expect:
the target becomes 5
settled: 5 replicas, 5 pods
the target is missing
settled: 5 replicas, 5 pods
kubectl scales to 8
settled: 8 replicas, 8 pods
the target becomes 4
settled: 4 replicas, 4 pods
