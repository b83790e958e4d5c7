package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/openapi"
)

// FallbackScalesDown is an external metric's fallback (KEP-5679, feature gate HPAExternalMetricFallback) that can lower the replicas. The
// HPA uses it once the metric was not served for some minutes, which includes mode: hold. Without a fallback the HPA keeps its replicas.
const FallbackScalesDown = "FallbackScalesDown"

// fallbackReplicas returns the replicas of the fallback of our metric in an HPA; ok is false where it has none. It reads the object as it
// is served: the field is alpha, and the typed API that this program is built with drops it.
func fallbackReplicas(u *unstructured.Unstructured) (replicas int64, ok bool) {
	metrics, _, _ := unstructured.NestedSlice(u.Object, "spec", "metrics")
	for _, m := range metrics {
		metric, _ := m.(map[string]any)
		name, _, _ := unstructured.NestedString(metric, "external", "metric", "name")
		if _, set, _ := unstructured.NestedMap(metric, "external", "fallback"); set && isOurMetric(name) {
			field, _, _ := unstructured.NestedFieldNoCopy(metric, "external", "fallback", "replicas")
			switch n := field.(type) {
			case int64:
				return n, true
			case float64: // of a file
				return int64(n), true
			}
			return 0, true
		}
	}
	return 0, false
}

// hpaFallbacks are the replicas of the fallback of our metric, by namespace/name of the HPA.
type hpaFallbacks map[string]int64

func (f hpaFallbacks) add(u *unstructured.Unstructured) {
	if replicas, ok := fallbackReplicas(u); ok {
		f[u.GetNamespace()+"/"+u.GetName()] = replicas
	}
}

func (f hpaFallbacks) of(h *hpaFacts) *int64 {
	if replicas, ok := f[h.Namespace+"/"+h.Name]; ok {
		return &replicas
	}
	return nil
}

func (l *lint) fallback() {
	if r := l.facts.Fallback; r != nil && *r < int64(l.spec.MaxReplicas) {
		l.add(FallbackScalesDown,
			fmt.Sprintf("its metric has fallback.replicas %d: while no target is served (mode: hold, an outage) the HPA scales to %d, also down", *r, *r),
			fmt.Sprintf("remove the metric's fallback, so that the HPA keeps its replicas, or set fallback.replicas: %d, its maxReplicas", l.spec.MaxReplicas))
	}
}

const (
	fallbackSchemaEvery = time.Hour
	fallbackListEvery   = 5 * time.Minute
	fallbackPage        = 500 // HPAs of one request
)

// fallbackReader reads the fallbacks of HPAs where the API server has the field.
type fallbackReader struct {
	objects dynamic.Interface
	served  func() (bool, error) // whether the API server has the field

	known         bool
	asked, listed time.Time
	found         hpaFallbacks
}

// read returns the fallbacks as of the last list. What cannot be read keeps what is known.
func (r *fallbackReader) read(ctx context.Context, now time.Time) (hpaFallbacks, error) {
	if r.asked.IsZero() || now.Sub(r.asked) >= fallbackSchemaEvery {
		known, err := r.served()
		if err != nil {
			return r.found, err
		}
		r.known, r.asked = known, now
	}
	if !r.known {
		r.found = nil
		return nil, nil
	}
	if !r.listed.IsZero() && now.Sub(r.listed) < fallbackListEvery {
		return r.found, nil
	}
	found := hpaFallbacks{}
	for options := (metav1.ListOptions{Limit: fallbackPage}); ; {
		page, err := r.objects.Resource(hpasResource).List(ctx, options)
		if err != nil {
			return r.found, err
		}
		for i := range page.Items {
			found.add(&page.Items[i])
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			r.found, r.listed = found, now
			return found, nil
		}
	}
}

// servesFallback reports whether the API server has the field.
func servesFallback(d discovery.DiscoveryInterface) (bool, error) {
	const path = "apis/autoscaling/v2"
	paths, err := d.OpenAPIV3().Paths()
	if err != nil || paths[path] == nil {
		return false, err
	}
	text, err := paths[path].Schema("application/json")
	if err != nil {
		return false, err
	}
	return hasFallback(text)
}

func hasFallback(text []byte) (bool, error) {
	var document struct {
		Components struct {
			Schemas map[string]openapi.Property `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return false, err
	}
	for name, schema := range document.Components.Schemas {
		if strings.HasSuffix(name, ".ExternalMetricSource") {
			_, ok := schema.At("fallback")
			return ok, nil
		}
	}
	return false, nil
}
