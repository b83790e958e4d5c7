# At zero replicas the HPA does nothing for every target.
on: hpa

the target becomes 5
settled
kubectl scales to 0
settled
kubectl scales to 1
settled

expect:
the target becomes 5
settled: 5 replicas, 5 pods
kubectl scales to 0
settled: 0 replicas, 0 pods
kubectl scales to 1
settled: 5 replicas, 5 pods
