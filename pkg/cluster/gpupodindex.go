package cluster

// putGPUPod adds a pod to the index of the pods that decisions about nodes need, and counts a change. The caller holds the lock.
func (w *world) putGPUPod(p *podFacts) {
	w.version++
	if p.gpuPod == nil {
		return
	}
	byName := w.gpuPods[p.Namespace]
	if byName == nil {
		byName = map[string]*podFacts{}
		w.gpuPods[p.Namespace] = byName
	}
	byName[p.Name] = p
}

func (w *world) dropGPUPod(namespace, name string) {
	w.version++
	delete(w.gpuPods[namespace], name)
	if len(w.gpuPods[namespace]) == 0 {
		delete(w.gpuPods, namespace)
	}
}
