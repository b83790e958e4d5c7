package externalmetrics

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/request"
	external "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
)

// These constants are parts of the URL with which an HPA reads the metric, four times a minute for each policy. For this request, the API
// server library spends three quarters of its time on routing, on parsing the selector three times and on converting the response between
// versions. The fast path in this file recognizes the URL by its text and responds without the library. The library handles all other
// requests, and all responses that are not a target. A test compares the responses of the fast path and of the library.
const (
	readPath  = "/apis/external.metrics.k8s.io/v1beta1/namespaces/"
	readEnd   = "/" + MetricName
	readQuery = "labelSelector=gpuscaler.io%2Fpolicy%3D"
)

// parseRead parses the path and the query of a URL. ok is false if the URL differs from the form that an HPA sends.
func parseRead(u *url.URL) (namespace, policy string, ok bool) {
	rest, isPath := strings.CutPrefix(u.Path, readPath)
	namespace, isMetric := strings.CutSuffix(rest, readEnd)
	policy, isQuery := strings.CutPrefix(u.RawQuery, readQuery)
	ok = isPath && isMetric && isQuery && u.RawPath == "" && plain(namespace, "-") && plain(policy, "-_.")
	return namespace, policy, ok
}

// plain reports whether a name has 1 to 63 characters and consists of letters, digits and the characters in the parameter others. The first
// and the last character must be a letter or a digit.
func plain(name, others string) bool {
	if len(name) == 0 || len(name) > 63 {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && i < len(name)-1 && strings.IndexByte(others, c) >= 0:
		default:
			return false
		}
	}
	return true
}

// quickInfo resolves the request info of a read for authentication and authorization. The result is the same as the library's result, but
// without selectors, so a caller is authorized for all policies of a namespace. RBAC ignores selectors. With selectors, each policy would
// need a separate SubjectAccessReview once a minute. More than 8,192 policies would exceed the library's cache, and each read would then
// cause a review.
type quickInfo struct{ library request.RequestInfoResolver }

func (q quickInfo) NewRequestInfo(r *http.Request) (*request.RequestInfo, error) {
	namespace, _, ok := parseRead(r.URL)
	if !ok || r.Method != http.MethodGet {
		info, err := q.library.NewRequestInfo(r)
		if info != nil {
			info.LabelSelector, info.FieldSelector = "", ""
		}
		return info, err
	}
	return &request.RequestInfo{
		IsResourceRequest: true, Path: r.URL.Path, Verb: "list", APIPrefix: "apis", APIGroup: external.GroupName, APIVersion: "v1beta1",
		Namespace: namespace, Resource: MetricName, Parts: []string{MetricName},
	}, nil
}

// quick is a handler that responds to the read of an HPA (see parseRead) if a target is available, and passes all other requests to the
// library. An earlier handler must have authenticated and authorized the caller.
type quick struct {
	provider *Provider
	library  http.Handler
}

func (q quick) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	namespace, policy, ok := parseRead(r.URL)
	if !ok || r.Method != http.MethodGet || !q.answer(w, r, namespace, policy) {
		q.library.ServeHTTP(w, r)
	}
}

func (q quick) answer(w http.ResponseWriter, r *http.Request, namespace, policy string) bool {
	served, err := q.provider.lookup(namespace, policy)
	if err != nil {
		return false
	}
	media, info, err := negotiation.NegotiateOutputMediaType(r, apiserver.Codecs, negotiation.DefaultEndpointRestrictions)
	if err != nil || media.Convert != nil || info.Serializer == nil {
		return false
	}
	var body bytes.Buffer
	if err := info.Serializer.Encode(&external.ExternalMetricValueList{
		TypeMeta: metav1.TypeMeta{Kind: "ExternalMetricValueList", APIVersion: "external.metrics.k8s.io/v1beta1"},
		Items: []external.ExternalMetricValue{{
			MetricName: MetricName, MetricLabels: map[string]string{PolicyLabel: policy},
			Timestamp: metav1.NewTime(served.At), Value: quantity(served),
		}},
	}, &body); err != nil {
		return false
	}
	w.Header().Set("Content-Type", info.MediaType)
	_, _ = w.Write(body.Bytes()) // an error means that the client has closed the connection
	return true
}
