package exposition

import "strings"

// Owner names the pod that a series belongs to.
type Owner struct{ Namespace, Pod string }

// ownerLabels lists the pairs of labels that name a pod, the surest first.
var ownerLabels = []struct{ namespace, pod string }{
	{"namespace", "pod"},
	{"kubernetes_namespace", "kubernetes_pod_name"}, // scrape configs by annotation
	{"kubernetes_namespace", "kubernetes_pod"},
	{"namespace", "pod_name"},
	{"k8s_namespace_name", "k8s_pod_name"}, // OpenTelemetry resource attributes
	{"k8s.namespace.name", "k8s.pod.name"}, // the same, unescaped
	{"exported_namespace", "exported_pod"},
}

// dcgmLabels is another order: without honorLabels, `pod` is the exporter itself and the GPU's pod is exported_pod.
var dcgmLabels = []struct{ namespace, pod string }{
	{"exported_namespace", "exported_pod"},
	{"pod_namespace", "pod_name"}, // --use-old-namespace
	{"exported_namespace", "exported_pod_name"},
	{"namespace", "pod"},
	{"k8s_namespace_name", "k8s_pod_name"},
}

// EngineOwner returns the pod that served an engine's series; ok is false where no pair of labels names one. namespaceLabel is the
// label that the server's owner says names the namespace; it comes before the usual ones.
func EngineOwner(l Labels, namespaceLabel string) (Owner, bool) {
	if o := (Owner{l.Get(namespaceLabel), l.Get("pod")}); o.Namespace != "" && o.Pod != "" {
		return o, true
	}
	return owner(l, ownerLabels)
}

// GPUOwner returns the pod that holds a GPU; ok is false for a free GPU, whose labels are absent or empty.
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

// OwnerLabels lists the labels that EngineOwner looks at, for queries that keep nothing else.
func OwnerLabels(namespaceLabel string) []string {
	out, seen := []string{}, map[string]bool{"": true}
	if namespaceLabel != "" {
		out, seen[namespaceLabel] = append(out, namespaceLabel), true
	}
	for _, p := range ownerLabels {
		for _, name := range [...]string{p.namespace, p.pod} {
			// A name that needs quotes in PromQL is no label of a server older than 3.0.
			if !seen[name] && !strings.Contains(name, ".") {
				seen[name] = true
				out = append(out, name)
			}
		}
	}
	return out
}
