package exposition

import "testing"

func TestPageCannotChangeTheScrapedPod(t *testing.T) {
	none := Owner{}
	for _, c := range []struct {
		name, labels      string
		scrape            ScrapeLabels
		scraped, reported Owner
		ok                bool
	}{
		{"a pod's own series", "x{namespace=chat,pod=llama-0}", ScrapeLabels{}, Owner{"chat", "llama-0"}, none, true},
		{"a page that names another pod", "x{namespace=gpu,pod=dcgm-1,exported_namespace=chat,exported_pod=llama-0}", ScrapeLabels{},
			Owner{"gpu", "dcgm-1"}, Owner{"chat", "llama-0"}, true},
		{"a page that names its own pod", "x{namespace=chat,pod=llama-0,exported_namespace=chat,exported_pod=llama-0}", ScrapeLabels{},
			Owner{"chat", "llama-0"}, none, true},
		{"the exporter's old label names", "x{namespace=gpu,pod=dcgm-1,pod_namespace=chat,pod_name=llama-0}", ScrapeLabels{},
			Owner{"gpu", "dcgm-1"}, Owner{"chat", "llama-0"}, true},
		{"a pod's own label that is half a name", "x{namespace=chat,pod=llama-0,pod_name=x,exported_pod=y}", ScrapeLabels{},
			Owner{"chat", "llama-0"}, none, true},
		{"a scrape by annotation", "x{kubernetes_namespace=chat,kubernetes_pod_name=llama-0}", ScrapeLabels{},
			Owner{"chat", "llama-0"}, none, true},
		{"OpenTelemetry", "x{k8s_namespace_name=chat,k8s_pod_name=llama-0}", ScrapeLabels{}, Owner{"chat", "llama-0"}, none, true},
		{"two names of one pod", "x{kubernetes_namespace=chat,kubernetes_pod=llama-0,namespace=chat,pod=llama-0}", ScrapeLabels{},
			Owner{"chat", "llama-0"}, none, true},
		{"two names of two pods", "x{kubernetes_namespace=evil,kubernetes_pod_name=e,namespace=chat,pod=llama-0}", ScrapeLabels{},
			Owner{"chat", "llama-0"}, none, false},
		{"two namespaces and one pod", "x{kubernetes_namespace=evil,namespace=chat,pod=llama-0}", ScrapeLabels{},
			Owner{"chat", "llama-0"}, none, false},
		{"declared labels", "x{kubernetes_namespace=gpu,kubernetes_pod_name=dcgm-1,namespace=chat,pod=llama-0}",
			ScrapeLabels{"kubernetes_namespace", "kubernetes_pod_name"}, Owner{"gpu", "dcgm-1"}, Owner{"chat", "llama-0"}, true},
		{"a namespace label of the server's own", "x{tenant_ns=chat,pod=llama-0}", ScrapeLabels{Namespace: "tenant_ns"},
			Owner{"chat", "llama-0"}, none, true},
		{"no declared label", "x{namespace=chat,pod=llama-0}", ScrapeLabels{Namespace: "tenant_ns"}, Owner{"", "llama-0"},
			Owner{"chat", "llama-0"}, false},
		{"only a page's labels", "x{exported_namespace=chat,exported_pod=llama-0}", ScrapeLabels{}, none, Owner{"chat", "llama-0"}, false},
		{"nothing", "x{gpu=0}", ScrapeLabels{}, none, none, false},
	} {
		s := series(c.labels, 0, scraped)
		if n, ok := c.scrape.Read(s.Labels); n.Scraped != c.scraped || n.Reported != c.reported || ok != c.ok {
			t.Errorf("%s: %+v %t, want scraped %v, reported %v, %t", c.name, n, ok, c.scraped, c.reported, c.ok)
		}
	}
}
