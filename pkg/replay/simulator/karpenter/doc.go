// Package karpenter simulates the nodes of a cluster: NodePools, kube-scheduler, and Karpenter's provisioner and disruption loop.
//
//	schedule     waiting pods, oldest first, on usable nodes with free GPUs; the emptiest node, or the fullest
//	provision    after the batch window, large pods first: starting nodes with room, then new nodes of the NodePool with the highest weight
//	start        launch, GPU ready, image pull (once per node and image)
//	disrupt      empty nodes, then one node whose pods fit elsewhere or on a cheaper node, within the budgets; validated before it happens
//	spot         a market for each pool from a trace; a notice before a node is lost; failed launches are cached
//	override     the fields of a NodePool that a capacity group reads and patches
//
// Cluster has no loop. It adds its events to the queue of the simulation (package events), which passes them to Handle. A Replica is the
// container of a pod, which another package simulates. Cluster starts, evicts and kills replicas, and reads only the Template of their
// workload.
//
// Not modeled: consolidation of several nodes into one, a choice of instance types in a pool, and PodDisruptionBudgets.
package karpenter
