package exposition

// Owner identifies the pod to which a series belongs.
type Owner struct{ Namespace, Pod string }

// ownerLabels contains pairs of labels that may name a pod. The first pair that exists is used.
var ownerLabels = []struct{ namespace, pod string }{
	{"namespace", "pod"},
	{"kubernetes_namespace", "kubernetes_pod_name"}, // set by scrape configurations that use pod annotations
	{"kubernetes_namespace", "kubernetes_pod"},
	{"namespace", "pod_name"},
	{"k8s_namespace_name", "k8s_pod_name"}, // OpenTelemetry resource attributes
	{"k8s.namespace.name", "k8s.pod.name"}, // the same names with dots instead of underscores
	{"exported_namespace", "exported_pod"},
}

// dcgmLabels contains pairs of labels that may name the pod that uses a GPU. The first pair that exists is used. If the exporter is scraped
// without honor_labels, `pod` is the exporter itself, and exported_pod is the pod that uses the GPU.
var dcgmLabels = []struct{ namespace, pod string }{
	{"exported_namespace", "exported_pod"},
	{"pod_namespace", "pod_name"}, // set by the DCGM exporter with its flag --use-old-namespace
	{"exported_namespace", "exported_pod_name"},
	{"namespace", "pod"},
	{"k8s_namespace_name", "k8s_pod_name"},
}

// EngineOwner returns the pod to which a series of a model server belongs, from the labels of the series. The result is false if the labels
// contain no pod. EngineOwner does not check whether the labels are from the scrape or from the page. Use it only for pages that gpuscaler
// scrapes itself. For series that Prometheus stores, use ScrapeLabels.
func EngineOwner(l Labels) (Owner, bool) { return owner(l, ownerLabels) }

// GPUOwner returns the pod that uses a GPU, from the labels of a series of the DCGM exporter. ok is false for a free GPU, for which the
// labels are missing or empty. Like EngineOwner, it does not check whether the labels are from the page.
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
