package exposition_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// A vLLM pod serves two models. Its number of waiting requests is the sum over the queues of both models.
func Example() {
	page := `# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="a"} 5
vllm:num_requests_waiting{model_name="b"} 2
`
	vllm, _ := exposition.Engine("vllm")
	waiting, _ := vllm.Lookup(exposition.RequestsWaiting)
	var queue exposition.Cell
	series := vllm.SeriesNames(exposition.RequestsWaiting)
	err := exposition.Parse(strings.NewReader(page), series, exposition.DefaultLimits, time.Now(), func(s *exposition.Sample) {
		queue.Add(vllm, waiting, s)
	})
	v := queue.Value(waiting)
	fmt.Println(v.Value, v.Quality == exposition.Good, err)
	// Output: 7 true <nil>
}
