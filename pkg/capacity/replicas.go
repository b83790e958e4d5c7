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

// size returns the number of pods of one replica.
func (w *Workload) size() int32 { return max(w.Size, 1) }

// complete reports whether pods, the existing pods of one replica, are as many as a replica has. A replica with several pods serves
// requests only if all of them exist.
func (w *Workload) complete(pods []Pod) bool { return len(pods) >= int(w.size()) }

// podGPUs returns how many GPUs the largest pod of a replica requests. One node must provide this number.
func (w *Workload) podGPUs() int64 {
	if w.PodGPUs > 0 {
		return units(w.PodGPUs)
	}
	return units(w.GPUs)
}

// needs returns the number of replicas that scaling requests, without the at-risk and surge replicas that this package added.
func (w *Workload) needs() int32 { return max(w.Uncapped-max(w.Extra, 0), 0) }
