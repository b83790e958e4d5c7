# The HPA is deleted, for example by KEDA. Until it is created again, nothing scales the Deployment.
on: hpa

the target becomes 5
settled
the HPA is deleted
the target becomes 8
settled
kubectl scales to 3
settled
the HPA is created
settled

expect:
the target becomes 5
settled: 5 replicas, 5 pods
the HPA is deleted
the target becomes 8
settled: 5 replicas, 5 pods
kubectl scales to 3
settled: 3 replicas, 3 pods
the HPA is created
settled: 8 replicas, 8 pods
