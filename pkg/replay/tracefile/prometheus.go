package tracefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/timestamp"
)

// maxAnswer is the maximum size in bytes of a saved response of Prometheus, which is decoded in memory. Prometheus returns at most 11,000
// points per series, so a response with a thousand series is smaller.
const maxAnswer = 512 << 20

// answer is the body of /api/v1/query_range.
type answer struct {
	Status    string   `json:"status"`
	ErrorType string   `json:"errorType"`
	Error     string   `json:"error"`
	Warnings  []string `json:"warnings"`
	Data      struct {
		ResultType string   `json:"resultType"`
		Result     []series `json:"result"`
	} `json:"data"`
}

type series struct {
	Metric     map[string]string `json:"metric"`
	Values     []point           `json:"values"`
	Histograms []json.RawMessage `json:"histograms"`
}

// point is a sample: [seconds, "value"].
type point struct {
	ns    int64
	value float64
}

func (pt *point) UnmarshalJSON(raw []byte) error {
	var at json.Number
	var value string
	pair := []any{&at, &value}
	if err := json.Unmarshal(raw, &pair); err != nil {
		return fmt.Errorf("sample %s: %w", input.Quote(string(raw)), err)
	}
	if len(pair) != 2 {
		return fmt.Errorf("sample %s has not two parts", input.Quote(string(raw)))
	}
	c := timestamp.Parser{Unit: timestamp.Seconds, Location: time.UTC}
	ns, allowed := c.Parse(at.String())
	if allowed != "" || c.Kind != timestamp.Absolute {
		return fmt.Errorf("sample at %s is not in epoch seconds", input.Quote(at.String()))
	}
	var err error
	if pt.value, err = strconv.ParseFloat(value, 64); err != nil {
		return fmt.Errorf("sample value %s: %w", input.Quote(value), err)
	}
	pt.ns = ns
	return nil
}

const answerAllowed = "the JSON of /api/v1/query_range: status success, resultType matrix, values [seconds, \"rate\"]"

// readPrometheus reads a saved response of Prometheus. The requests of each series count as requests of one client. The value of a sample
// is the rate of the step that ends at the sample's time, because rate() and increase() cover the time before it.
func readPrometheus(p input.Place, in io.Reader, o Options, t *contents) *trace.Error {
	body := &io.LimitedReader{R: in, N: maxAnswer}
	decoder := json.NewDecoder(body)
	var a answer
	if err := decoder.Decode(&a); err != nil {
		if body.N <= 0 {
			return p.Refuse(fmt.Sprintf("more than %d MiB", maxAnswer>>20), "less: a longer step, or fewer series (sum)")
		}
		return p.Failed(err, answerAllowed)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return p.Refuse("more after the end of the answer", answerAllowed)
	}
	if err := a.usable(p); err != nil {
		return err
	}
	b := newRateBuilder(o)
	b.clock.Kind = timestamp.Absolute
	for i, s := range a.Data.Result {
		if err := b.series(p, i, s); err != nil {
			return err
		}
	}
	b.step = b.windowLength()
	if b.step <= 0 {
		b.step = o.Window
	}
	b.lookBack()
	for _, w := range a.Warnings {
		t.Notes = append(t.Notes, "Prometheus warned: "+input.Quote(w))
	}
	t.Notes = append(t.Notes, fmt.Sprintf("%d series, read as requests %s", len(a.Data.Result), unitNames[o.Unit]))
	return b.finish(p, t)
}

var unitNames = map[RateUnit]string{PerSecond: "per second", PerMinute: "per minute", PerWindow: "per step"}

func (a answer) usable(p input.Place) *trace.Error {
	switch {
	case a.Status == "error":
		return p.Refuse(fmt.Sprintf("Prometheus' error %s: %s", a.ErrorType, input.Quote(a.Error)), answerAllowed)
	case a.Status != "success":
		return p.Refuse("status "+input.Quote(a.Status), answerAllowed)
	case a.Data.ResultType != "matrix":
		return p.Refuse("resultType "+input.Quote(a.Data.ResultType), "matrix: use query_range, not query")
	case len(a.Data.Result) == 0:
		return p.Refuse("no series", "at least one: does the query name a metric that exists in that range?")
	}
	return nil
}

// series adds the samples of one series. A NaN (0/0 in the query) is an unknown rate: the sample is skipped, which leaves a gap.
func (b *rateBuilder) series(p input.Place, i int, s series) *trace.Error {
	p.File += fmt.Sprintf("(series %d)", i+1)
	if len(s.Histograms) > 0 {
		return p.Refuse("native histograms", "numbers: wrap the query in histogram_count(rate(...))")
	}
	b.begin(p, labels(s.Metric, i))
	for n, pt := range s.Values {
		at := input.Place{File: fmt.Sprintf("%s sample %d", p.File, n+1)}
		switch {
		case math.IsNaN(pt.value):
			b.seen.unknown++
			continue
		case pt.value < 0 || math.IsInf(pt.value, 0):
			return at.Refuse(fmt.Sprintf("value %g", pt.value), "a rate not below 0, finite; NaN is read as unknown")
		}
		if err := b.add(at, sample{ns: pt.ns, rate: pt.value, cv: b.o.CV, family: b.o.Family}); err != nil {
			return err
		}
	}
	return nil
}

// lookBack changes the time of each sample from the end of its step to the start. It is called once b.step is known.
func (b *rateBuilder) lookBack() {
	for _, own := range b.samples {
		for i := range own {
			own[i].ns -= int64(b.step)
		}
	}
}

// labels returns the labels of a series in a fixed order, as the name of its client. The random numbers of a client depend on its name
// only, and not on the other series in the response.
func labels(metric map[string]string, i int) string {
	if len(metric) == 0 {
		return "series " + strconv.Itoa(i+1)
	}
	var sb strings.Builder
	for _, k := range slices.Sorted(maps.Keys(metric)) {
		fmt.Fprintf(&sb, "%s=%q,", k, metric[k])
	}
	return sb.String()
}
