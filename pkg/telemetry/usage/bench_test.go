package usage

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

// fleet is a Prometheus server with data of a thousand GPUs on 125 nodes. It returns the data from memory, so that the benchmark measures
// only Read.
type fleet struct{}

func (fleet) Names(context.Context, string, time.Time, time.Time) ([]string, error) {
	return []string{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE",
		"DCGM_FI_DEV_POWER_USAGE"}, nil
}

func (fleet) Instant(context.Context, string, time.Time) (model.Vector, error) { return nil, nil }

func (fleet) Range(_ context.Context, expr string, r v1.Range) (model.Matrix, error) {
	if strings.Contains(expr, "karpenter") {
		return nil, nil
	}
	value := model.SampleValue(0.4)
	if !strings.Contains(expr, "PROF") {
		value = 40
	}
	var out model.Matrix
	for i := range 1000 {
		s := &model.SampleStream{Metric: model.Metric{"UUID": model.LabelValue(fmt.Sprint("GPU-", i)),
			"Hostname": model.LabelValue(fmt.Sprint("node-", i/8)), "modelName": "NVIDIA H100 80GB HBM3",
			"namespace": model.LabelValue(fmt.Sprint("team-", i%20)), "pod": model.LabelValue(fmt.Sprintf("serve-7d9f8b6c5d-%05d", i))}}
		for at := r.Start; !at.After(r.End); at = at.Add(r.Step) {
			s.Values = append(s.Values, model.SamplePair{Timestamp: model.TimeFromUnixNano(at.UnixNano()), Value: value})
		}
		out = append(out, s)
	}
	return out, nil
}

func BenchmarkADayOfAThousandGPUs(b *testing.B) {
	for b.Loop() {
		l := cost.NewLedger(cost.Options{Resolution: time.Hour})
		if _, err := Read(b.Context(), fleet{}, Options{From: time.Unix(0, 0), To: time.Unix(86400, 0), Step: 5 * time.Minute}, l); err != nil {
			b.Fatal(err)
		}
		l.Bill(cost.Period{})
	}
}
