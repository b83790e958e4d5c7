# The replicas are outside of the bounds of the HPA, and no target is served.
on: hpa

the target is missing
kubectl scales to 1
settled
kubectl scales to 25
settled

expect:
the target is missing
kubectl scales to 1
settled: 2 replicas, 2 pods
kubectl scales to 25
settled: 20 replicas, 20 pods
