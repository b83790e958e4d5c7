# kubectl scales a Deployment whose HPA has a target.
on: hpa

the target becomes 5
settled
kubectl scales to 9
settled
kubectl scales to 1
settled

expect:
the target becomes 5
settled: 5 replicas, 5 pods
kubectl scales to 9
settled: 5 replicas, 5 pods
kubectl scales to 1
settled: 5 replicas, 5 pods
