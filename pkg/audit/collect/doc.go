// Package collect reads the snapshot of an audit: the autoscalers and their workloads from objects of a cluster, and their history from a
// Prometheus server. It only reads.
//
// # Series
//
//	kube_pod_container_resource_requests, kube_pod_status_phase   GPUs that pods hold; without them no cost is known
//	kube_node_info                                                whether kube-state-metrics was scraped: no pod then means 0 GPUs
//	kube_{deployment,statefulset}_status_replicas_ready           ready replicas
//	kube_node_status_allocatable, kube_node_labels                GPUs and instance types of nodes; without them no free nodes
//	vllm:num_requests_running, vllm:num_requests_waiting          GPU use and needed replicas; without them GPU activity is used
//	DCGM_FI_PROF_GR_ENGINE_ACTIVE, DCGM_FI_DEV_GPU_UTIL           GPU activity, if the server reports no requests
//	vllm:request_queue_time_seconds                               requests and their waits; without it no SLO and no replay
//	vllm:request_inference_time_seconds                           service time for the replay
//
// The objects of past pods do not exist anymore, so a pod is attributed to the Deployment or StatefulSet with whose name its own name
// begins.
package collect
