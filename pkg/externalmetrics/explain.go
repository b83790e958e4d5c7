package externalmetrics

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
	external "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
)

// ExplainResource is where the API server hands on questions why a policy has its number, beside the number itself:
//
//	kubectl get --raw /apis/external.metrics.k8s.io/v1beta1/namespaces/team-chat/gpuscaler-explain/llama-chat
//
// Who may ask is a rule like any other: get and list of gpuscaler-explain in external.metrics.k8s.io, by namespace. No further API is
// registered for it: one that is dead would keep namespaces from being deleted.
const ExplainResource = "gpuscaler-explain"

// ExplainHeader stands on our own answers. Without it somebody else answered: another owner of the registration, or the API server.
const ExplainHeader = "Gpuscaler-Explain"

// explain answers questions behind everything that decides who may ask.
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
