// Package cluster connects the engine to Kubernetes: it composes the sub-packages, starts their informers and goroutines, and implements
// the engine's interfaces. Neither this package nor a sub-package decides targets or overrides.
//
//	configmaps   ConfigMaps with policies of teams
//	policystatus acceptance and refusal of policies, written into an annotation
//	cache        scale targets, their pods, HPAs and ScaledObjects in memory
//	informer     informers, also of kinds whose CRD is installed or removed later
//	rejections   why the StatefulSet controller cannot create pods
//	manual       pauses and overrides that a user sets by annotations
//	learned      the state that a new leader takes over from the previous leader, such as cold starts
//	rounds       the loop of all periodic work
//	scale        /scale of the additional kinds that the configuration names
//	activation   /scale between zero and one replica, and KEDA's annotations
//	transitions  changed targets, reported by Events
//	findings     configuration errors of objects, reported by Events
//	snapshot     the checks of findings, run once for `gpuscaler lint`
//	events       Kubernetes Events
//	leader       leader election, the leader label, other releases
//	apiservice   the APIService of external metrics
//
// The packages for nodes and Karpenter:
//
//	karpenter       NodePools and NodeClaims in the terms of package capacity
//	nodes           NodePools, NodeClaims and Nodes in memory; the observation of a capacity group
//	schedulability  which pods nodes of a NodePool can run
//	nodepoolwriter  patches of NodePools and annotations of pods
//	buffers         CapacityBuffers
//	deviceclaims    ResourceClaims
//	restore         `gpuscaler restore`
//	openapi         which fields an API server has
//	gpupods         the GPUs and devices that a pod requests
//	ownership       managedFields
//
// A sub-package receives narrow interfaces and never a Cluster.
//
// # Terms
//
//   - record: the annotation of a NodePool with the original values of the fields that gpuscaler overrides
//   - target: the desired replicas of a workload; scale target: the Deployment or other object that is scaled
//   - operator annotations: the annotations by which a user pauses or overrides gpuscaler
package cluster
