package externalmetrics

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
	external "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
)

// ExplainResource is the resource through which the API server forwards requests for the explanation of a target:
//
//	kubectl get --raw /apis/external.metrics.k8s.io/v1beta1/namespaces/team-chat/gpuscaler-explain/llama-chat
//
// Access is an RBAC rule: get and list of gpuscaler-explain in external.metrics.k8s.io, by namespace. No other APIService is registered
// for it, because an unavailable APIService prevents namespaces from being deleted.
const ExplainResource = "gpuscaler-explain"

// ExplainHeader is set on answers of gpuscaler. An answer without it is from the API server or from another server that is registered.
const ExplainHeader = "Gpuscaler-Explain"

// explain serves the explanations. The caller is authenticated and authorized before.
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
