package externalmetrics

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
	external "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
)

// ExplainResource is the resource name in the URL of an explanation. The API server forwards requests for explanations to gpuscaler,
// because their URL belongs to the API group of external metrics:
//
//	kubectl get --raw /apis/external.metrics.k8s.io/v1beta1/namespaces/team-chat/gpuscaler-explain/llama-chat
//
// RBAC rules grant access by namespace, with the verbs get and list for gpuscaler-explain in external.metrics.k8s.io. Explanations have no
// separate APIService, because an unavailable APIService prevents namespaces from being deleted.
const ExplainResource = "gpuscaler-explain"

// ExplainHeader is a header that gpuscaler sets on its responses. A response without it is from the API server, or from another server that
// serves external.metrics.k8s.io.
const ExplainHeader = "Gpuscaler-Explain"

// explain is a handler that serves explanations and passes other requests to next. An earlier handler must have authenticated and
// authorized the caller.
type explain struct {
	of   func(namespace, name string) http.Handler
	next http.Handler
}

func (e explain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok || !info.IsResourceRequest || info.APIGroup != external.GroupName || info.Resource != ExplainResource || info.Subresource != "" ||
		r.Method != http.MethodGet || info.Verb != "get" && info.Verb != "list" {
		e.next.ServeHTTP(w, r)
		return
	}
	w.Header().Set(ExplainHeader, "1")
	e.of(info.Namespace, info.Name).ServeHTTP(w, r)
}
