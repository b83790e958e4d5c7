package objective

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/components"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
)

const recorded = "AzureLLMInferenceTrace_conv.csv"

// hour returns an hour of recorded requests with the given mean service time. If the recording is not stored next to the repository, ok
// is false and the requests are generated with the same rate. The service times are in proportion to the tokens of the requests. They are
// shuffled with a fixed seed, so that the capacity of a replica is the same during the whole hour.
func hour(t *testing.T, mean time.Duration) (requests *trace.Trace, ok bool) {
	t.Helper()
	root, err := components.Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(root), "..", "shared", "data", "requests", recorded)
	if _, err = os.Stat(path); err == nil {
		requests, err = tracefile.Open(path, tracefile.Options{})
		ok = true
	} else {
		t.Logf("the requests are generated, because the recorded hour is missing: %v", err)
		requests, err = trace.Generate(trace.Profile{Name: "hour", Duration: time.Hour, Rate: 5.4, CV: 1.3, Seed: 1,
			Tokens: &trace.Tokens{Input: trace.TokenDist{Mean: 1155, Sigma: 1}, Output: trace.TokenDist{Mean: 211, Sigma: 0.8}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	service := simulator.Chat8B
	var all []trace.Request
	var sum time.Duration
	for r := range requests.All() {
		r.Service = service.Takes(r)
		sum += r.Service
		all = append(all, r)
	}
	scale := mean.Seconds() * float64(len(all)) / sum.Seconds()
	for i := range all {
		all[i].Service = time.Duration(scale * float64(all[i].Service)).Truncate(time.Microsecond)
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(all), func(i, j int) { all[i].Service, all[j].Service = all[j].Service, all[i].Service })
	return trace.NewLog(requests.Header, all), ok
}

// serving returns a load that serves the requests with the ready pods of a Deployment. A pod serves slots requests at once. A pod whose
// image is not the image of package workload needs `slower` times as long for a request.
func serving(requests *trace.Trace, slots int, slower float64) *exporter.Requests {
	return &exporter.Requests{Arrivals: requests.Stream(), Slots: slots, Limit: 10 * time.Second, Grace: 30 * time.Second,
		Takes: func(r trace.Request, image string) time.Duration {
			if image == slowImage {
				return time.Duration(slower * float64(r.Service))
			}
			return r.Service
		}}
}

// slowImage is the image of a slower version of the model server.
const slowImage = "vllm/vllm-openai:slow"
