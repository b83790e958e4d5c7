// Package audit computes what the current autoscalers of a cluster cost, from a snapshot of their history: the cost per month, the share of
// the GPU time that served requests, the SLO, the least possible cost, what gpuscaler would have cost, and the causes of the waste. Nothing
// of gpuscaler needs to be installed in the cluster.
//
// # Data
//
// A Snapshot has values for each step of a period: replicas, GPUs that pods hold, requests, and GPUs of nodes. A missing value is null in
// the file and NaN in memory, never 0. Time without a value is not assigned to any cause; the report lists it as not measured. Costs per
// month are computed from the measured time alone. Package collect reads a snapshot from a cluster and a Prometheus server.
//
// # How the GPU time of a step is divided
//
//	served        running requests / slots of a replica, as a part of the held GPUs; without these metrics the GPU activity
//	start         GPUs of pods that are scheduled and not ready
//	headroom      idle part of the replicas that the requests of the step need: (running + waiting) / slots, rounded up
//	floor         idle part of further ready replicas, up to minReplicas
//	schedule      idle part of further ready replicas, up to the replicas of a schedule that is active
//	cooldown      idle part of further ready replicas, up to the highest need within the cooldown of the autoscaler
//	wrong metric  idle part of all other ready replicas: the metric of the autoscaler requests them without need
//	stuck node    GPUs without a pod, on nodes that have been free for at least StuckNodeAge
//	node change   GPUs without a pod for a shorter time: nodes that start, end, or are partly used
//
// # How the tests verify the audit
//
// The tests run autoscalers in the simulator. The simulator's ledger records the cause of each GPU second. The tests write the metrics that
// kube-state-metrics and vLLM export to Prometheus' query engine, read a snapshot with package collect, audit it, and compare the result
// with the ledger. Cost, SLO and waste agree within 2%, for several seeds and numbers of slots, and for a workload that scales from zero.
package audit
