package exposition

// Owner names the pod that a series belongs to.
type Owner struct{ Namespace, Pod string }

// ownerLabels are the pairs of labels that name a pod, the most reliable first.
var ownerLabels = []struct{ namespace, pod string }{
	{"namespace", "pod"},
	{"kubernetes_namespace", "kubernetes_pod_name"}, // scrape configs by annotation
	{"kubernetes_namespace", "kubernetes_pod"},
	{"namespace", "pod_name"},
	{"k8s_namespace_name", "k8s_pod_name"}, // OpenTelemetry resource attributes
	{"k8s.namespace.name", "k8s.pod.name"}, // the same, unescaped
	{"exported_namespace", "exported_pod"},
}

// dcgmLabels have another order: without honorLabels, `pod` is the exporter itself, and the pod that holds the GPU is exported_pod.
var dcgmLabels = []struct{ namespace, pod string }{
	{"exported_namespace", "exported_pod"},
	{"pod_namespace", "pod_name"}, // --use-old-namespace
	{"exported_namespace", "exported_pod_name"},
	{"namespace", "pod"},
	{"k8s_namespace_name", "k8s_pod_name"},
}

// EngineOwner returns the pod that a series of a model server names; ok is false where no pair of labels names one. It does not check
// what wrote the labels: use it for pages of pods that the PlatformConfig declares, and ScrapeLabels for series that Prometheus stores.
func EngineOwner(l Labels) (Owner, bool) { return owner(l, ownerLabels) }

// GPUOwner returns the pod that a series names as the holder of a GPU; ok is false for a free GPU, whose labels are absent or empty. It
// does not check what wrote the labels, like EngineOwner.
func GPUOwner(l Labels) (Owner, bool) { return owner(l, dcgmLabels) }

func owner(l Labels, pairs []struct{ namespace, pod string }) (Owner, bool) {
	for _, p := range pairs {
		o := Owner{Namespace: l.Get(p.namespace), Pod: l.Get(p.pod)}
		if o.Namespace != "" && o.Pod != "" {
			return o, true
		}
	}
	return Owner{}, false
}
