package findings

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/openapi"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
)

const (
	schemaInterval   = time.Hour
	fallbackInterval = 5 * time.Minute
	fallbackPageSize = 500 // number of HPAs in one request
)

var hpas = autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers")

// fallbackReader reads the field fallback of HPAs. If the API server does not have this field, it lists no HPAs.
type fallbackReader struct {
	objects dynamic.Interface
	served  func() (bool, error) // reports whether the API server has the field

	hasField             bool
	schemaRead, listRead time.Time
	found                objects.Fallbacks
}

// read returns the fallbacks of all HPAs. It lists the HPAs if the previous list is older than fallbackInterval. If a request fails, it
// returns the fallbacks of the previous list and the error.
func (r *fallbackReader) read(ctx context.Context, now time.Time) (objects.Fallbacks, error) {
	if r.schemaRead.IsZero() || now.Sub(r.schemaRead) >= schemaInterval {
		hasField, err := r.served()
		if err != nil {
			return r.found, err
		}
		r.hasField, r.schemaRead = hasField, now
	}
	if !r.hasField {
		r.found = nil
		return nil, nil
	}
	if !r.listRead.IsZero() && now.Sub(r.listRead) < fallbackInterval {
		return r.found, nil
	}
	found := objects.Fallbacks{}
	for options := (metav1.ListOptions{Limit: fallbackPageSize}); ; {
		page, err := r.objects.Resource(hpas).List(ctx, options)
		if err != nil {
			return r.found, err
		}
		for i := range page.Items {
			found.Add(&page.Items[i])
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			r.found, r.listRead = found, now
			return found, nil
		}
	}
}

// servesFallback reports whether external metrics of HPAs have the field fallback in the schema of the API server.
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
	return schemaHasFallback(text)
}

func schemaHasFallback(text []byte) (bool, error) {
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
