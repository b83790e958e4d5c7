package externalmetrics

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericfeatures "k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	external "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
)

// The one request that an HPA makes, four times a minute and policy. The library takes three quarters of its time to route it, to parse
// its selector three times over and to convert the answer between versions; here it is known by its bytes. Whatever differs in any
// byte goes the library's way, and so does whatever is not answered with a number. A test holds the two ways against each other.
const (
	readPath  = "/apis/external.metrics.k8s.io/v1beta1/namespaces/"
	readEnd   = "/" + MetricName
	readQuery = "labelSelector=gpuscaler.io%2Fpolicy%3D"
)

// parseRead takes the request's address apart; ok is false for whatever is not written exactly as an HPA writes it.
func parseRead(u *url.URL) (namespace, policy string, ok bool) {
	rest, isPath := strings.CutPrefix(u.Path, readPath)
	namespace, isMetric := strings.CutSuffix(rest, readEnd)
	policy, isQuery := strings.CutPrefix(u.RawQuery, readQuery)
	ok = isPath && isMetric && isQuery && u.RawPath == "" && plain(namespace, "-") && plain(policy, "-_.")
	return namespace, policy, ok
}

// plain reports whether a name is what a label's value may be: letters, digits, and between them these others.
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

// quickInfo tells what is asked for, for those who authenticate and authorize: the same words as the library's.
type quickInfo struct{ library request.RequestInfoResolver }

func (q quickInfo) NewRequestInfo(r *http.Request) (*request.RequestInfo, error) {
	namespace, policy, ok := parseRead(r.URL)
	if !ok || r.Method != http.MethodGet {
		return q.library.NewRequestInfo(r)
	}
	info := &request.RequestInfo{
		IsResourceRequest: true, Path: r.URL.Path, Verb: "list", APIPrefix: "apis", APIGroup: external.GroupName, APIVersion: "v1beta1",
		Namespace: namespace, Resource: MetricName, Parts: []string{MetricName},
	}
	if utilfeature.DefaultFeatureGate.Enabled(genericfeatures.AuthorizeWithSelectors) {
		info.LabelSelector = PolicyLabel + "=" + policy
	}
	return info, nil
}

// quick answers the read, where there is a number to answer with. It stands behind everything that decides who may ask.
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
	_, _ = w.Write(body.Bytes()) // the reader went away: nothing is owed
	return true
}
