package capacity

// eachReplica visits the pods of each replica of a workload.
func (w *Workload) eachReplica(visit func(pods []Pod)) {
	for i := 0; i < len(w.Pods); {
		n := 1
		for i+n < len(w.Pods) && w.Pods[i].Replica != "" && w.Pods[i+n].Replica == w.Pods[i].Replica {
			n++
		}
		visit(w.Pods[i : i+n])
		i += n
	}
}

// size is how many pods one replica has.
func (w *Workload) size() int32 { return max(w.Size, 1) }

// whole reports whether these pods of a replica are all that it has: a replica of several serves only with all of them.
func (w *Workload) whole(pods []Pod) bool { return len(pods) >= int(w.size()) }

// podGPUs is what the greatest pod of a replica asks for, which one node must have.
func (w *Workload) podGPUs() int64 {
	if w.PodGPUs > 0 {
		return units(w.PodGPUs)
	}
	return units(w.GPUs)
}
