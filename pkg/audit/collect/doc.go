// Package collect reads the snapshot of an audit: the autoscalers and their workloads from objects of a cluster, and their history from a
// Prometheus server. It only reads.
//
// # Series
//
//	kube_pod_container_resource_requests, kube_pod_status_phase   GPUs that pods hold; without them no cost is known
//	kube_node_info                                                the steps with a scrape of kube-state-metrics: no pod means 0 GPUs
//	kube_{deployment,statefulset}_status_replicas_ready           ready replicas
//	kube_node_status_allocatable, kube_node_labels                GPUs and types of nodes; without them free nodes are unknown
//	kube_node_created                                             GPUs of nodes from their registration until they are allocatable
//	kube_pod_start_time                                           whether the first sample of a counter belongs to a new replica
//	vllm:num_requests_running, vllm:num_requests_waiting          GPU use and needed replicas; without them GPU activity is used
//	DCGM_FI_PROF_GR_ENGINE_ACTIVE, DCGM_FI_DEV_GPU_UTIL           GPU activity; used if a workload reports no requests
//	vllm:request_queue_time_seconds                               number and waits of requests; needed for SLOs and the replay
//	vllm:request_inference_time_seconds                           service time for the replay
//
// The API server does not have the objects of past pods. Therefore the audit finds the Deployment or StatefulSet of a pod by the name of
// the pod, which begins with the name of its workload.
package collect
