# The Deployment of an HPA is deleted and created again with other replicas, with and without a target. A deleted pod is replaced.
on: hpa

the target becomes 5
settled
a pod is deleted
settled
the Deployment is deleted and created with 3
settled
the target is missing
the Deployment is deleted and created with 4
settled

expect:
the target becomes 5
settled: 5 replicas, 5 pods
a pod is deleted
settled: 5 replicas, 5 pods
the Deployment is deleted and created with 3
settled: 5 replicas, 5 pods
the target is missing
the Deployment is deleted and created with 4
settled: 4 replicas, 4 pods
