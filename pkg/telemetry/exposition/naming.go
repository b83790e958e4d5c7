package exposition

import "slices"

// ScrapeLabels are the labels in which a scrape stores the pod that it read. Empty names mean namespace and pod.
//
// A scrape without honor_labels sets these labels itself: the page cannot change them, and a label of the same name on the page is stored
// with the prefix exported_. The page writes every other label. With honor_labels the page writes all labels, and a series cannot be
// distinguished from one that the named pod served itself; use honor_labels for trusted jobs only.
type ScrapeLabels struct{ Namespace, Pod string }

// Naming has the pods that the labels of a stored series name.
type Naming struct {
	Scraped  Owner // the pod whose page was read; Pod is empty where the scrape stores only a namespace
	Reported Owner // another pod that the page names; zero for none
}

// scrapeNames are the label names in which scrape configurations store the scraped pod.
var scrapeNames = []struct {
	namespace string
	pods      []string
}{
	{"namespace", []string{"pod", "pod_name"}},
	{"kubernetes_namespace", []string{"kubernetes_pod_name", "kubernetes_pod"}}, // scrape configurations by annotation
	{"k8s_namespace_name", []string{"k8s_pod_name"}},                            // OpenTelemetry resource attributes
	{"k8s.namespace.name", []string{"k8s.pod.name"}},                            // the same, unescaped
}

// reportLabels are the pairs of labels that only a page writes.
var reportLabels = []struct{ namespace, pod string }{
	{"exported_namespace", "exported_pod"},
	{"pod_namespace", "pod_name"}, // the DCGM exporter's --use-old-namespace
	{"exported_namespace", "exported_pod_name"},
}

// Read returns the pods that the labels of a series name. ok is false where labels contradict each other about the scraped pod, so that
// the page wrote one of them, and where no label names a namespace.
func (s ScrapeLabels) Read(l Labels) (n Naming, ok bool) {
	pairs := reportLabels
	if s.isDefault() {
		n.Scraped, ok = scrapedPod(l)
	} else {
		n.Scraped = Owner{l.Get(s.NamespaceLabel()), l.Get(s.pod())}
		ok = n.Scraped.Namespace != ""
		pairs = append(slices.Clone(pairs), struct{ namespace, pod string }{"namespace", "pod"})
	}
	for _, c := range pairs {
		o := Owner{l.Get(c.namespace), l.Get(c.pod)}
		if o.Namespace != "" && o.Pod != "" && o != n.Scraped {
			n.Reported = o
			break
		}
	}
	return n, ok
}

func (s ScrapeLabels) isDefault() bool { return s.NamespaceLabel() == "namespace" && s.pod() == "pod" }

// Names returns the labels that Read uses, for queries that keep no other labels. Names that need quotes in PromQL are left out: servers
// before Prometheus 3.0 have no such labels.
func (s ScrapeLabels) NamespaceLabel() string { return orElse(s.Namespace, "namespace") }
func (s ScrapeLabels) pod() string            { return orElse(s.Pod, "pod") }

func orElse(name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	return name
}

// scrapedPod returns the pod on which all known label names agree. A hostile page can add labels that the scrape does not set, and cannot
// remove those that it sets.
func scrapedPod(l Labels) (out Owner, ok bool) {
	for _, names := range scrapeNames {
		o := Owner{Namespace: l.Get(names.namespace)}
		if o.Namespace == "" {
			continue
		}
		for _, pod := range names.pods {
			if o.Pod = l.Get(pod); o.Pod != "" {
				break
			}
		}
		if ok && o != out {
			return out, false
		}
		out, ok = o, true
	}
	return out, ok
}

// Namespaces returns the labels in which Read finds the namespace of the scraped pod and of a pod that the page names. Names that need
// quotes in PromQL are left out, as in Names.
func (s ScrapeLabels) Namespaces() (scraped, reported []string) {
	for _, c := range reportLabels {
		if !slices.Contains(reported, c.namespace) {
			reported = append(reported, c.namespace)
		}
	}
	if !s.isDefault() {
		if s.NamespaceLabel() != "namespace" {
			reported = append(reported, "namespace")
		}
		return []string{s.NamespaceLabel()}, reported
	}
	for _, names := range scrapeNames[:3] {
		scraped = append(scraped, names.namespace)
	}
	return scraped, reported
}

// Names lists the labels that Read looks at, for queries that keep nothing else. Names that need quotes in PromQL are left out: they are
// no labels of a server older than 3.0.
func (s ScrapeLabels) Names() []string {
	out := []string{s.NamespaceLabel(), s.pod()}
	add := func(name string) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, names := range scrapeNames[:3] {
		add(names.namespace)
		for _, pod := range names.pods {
			add(pod)
		}
	}
	for _, c := range reportLabels {
		add(c.namespace)
		add(c.pod)
	}
	return out
}
