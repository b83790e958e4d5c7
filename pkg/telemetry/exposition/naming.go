package exposition

import "slices"

// ScrapeLabels are the names of the labels in which Prometheus stores the pod that it scraped. The defaults are namespace and pod.
//
// A scrape without honor_labels sets these labels itself. The scraped page cannot change them: if the page has a label with the same name,
// Prometheus adds the prefix exported_ to the name of that label. All other labels are from the page. With honor_labels, Prometheus takes
// all labels from the page. A page can then imitate the series of another pod. Use honor_labels only for trusted scrape jobs.
type ScrapeLabels struct{ Namespace, Pod string }

// Naming is the result of ScrapeLabels.Read: the pod that was scraped and, if the series refers to another pod, this other pod.
type Naming struct {
	Scraped  Owner // the pod whose page was read; Pod is empty if the scrape stores only a namespace
	Reported Owner // the pod to which the series refers, if it is not the scraped pod; otherwise the zero value
}

// scrapeNames contains the names of the labels in which scrape configurations store the scraped pod.
var scrapeNames = []struct {
	namespace string
	pods      []string
}{
	{"namespace", []string{"pod", "pod_name"}},
	{"kubernetes_namespace", []string{"kubernetes_pod_name", "kubernetes_pod"}}, // set by scrape configurations that use pod annotations
	{"k8s_namespace_name", []string{"k8s_pod_name"}},                            // OpenTelemetry resource attributes
	{"k8s.namespace.name", []string{"k8s.pod.name"}},                            // the same names with dots instead of underscores
}

// reportLabels contains labels that no scrape configuration sets. If a series has such a label, the label is from the scraped page.
var reportLabels = []struct{ namespace, pod string }{
	{"exported_namespace", "exported_pod"},
	{"pod_namespace", "pod_name"}, // set by the DCGM exporter with its flag --use-old-namespace
	{"exported_namespace", "exported_pod_name"},
}

// Read returns the scraped pod and the pod to which a series refers, both from the labels of the series. ok is false if no label contains
// the namespace of the scraped pod. ok is also false if two labels name different scraped pods, because one of these labels is then from
// the page.
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

// NamespaceLabel returns the name of the label with the namespace of the scraped pod.
func (s ScrapeLabels) NamespaceLabel() string { return orElse(s.Namespace, "namespace") }
func (s ScrapeLabels) pod() string            { return orElse(s.Pod, "pod") }

func orElse(name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	return name
}

// scrapedPod returns the scraped pod from all labels in scrapeNames. ok is false if there are no such labels or if they name different
// pods. A hostile page can add labels that the scrape does not set, but it cannot remove the labels that the scrape sets. A false label
// therefore always contradicts a true one.
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

// Namespaces returns the names of the labels from which Read takes a namespace. The labels in scraped contain the namespace of the scraped
// pod. The labels in reported are written by the exporter and contain the namespace of the pod that a series is about. Names that must be
// quoted in PromQL are not included (see the method Names).
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

// Names returns the names of the labels that Read uses. Queries keep these labels when they aggregate series. Names that must be quoted in
// PromQL (such as k8s.pod.name) are not included, because Prometheus before 3.0 does not support such labels.
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
