package evaluate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/spf13/pflag"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
)

const (
	// pointsAtOnce is the maximum number of points per series in one query. A Prometheus server refuses queries with more than 11,000.
	pointsAtOnce = 10_000
	// mostPoints is the maximum number of points of a trace. With a step of one minute, one series of a year or fifty series of a week have
	// fewer points.
	mostPoints = 600_000
)

// rangeFlags are the flags that select recorded request rates in a Prometheus server.
type rangeFlags struct {
	commandline.Prometheus
	query, start, end string
	step              time.Duration
	save              string
	answer            []byte // the fetched response, which tune reads twice
}

func (r *rangeFlags) register(f *pflag.FlagSet) {
	f.StringVar(&r.Address, "prometheus", "", "fetch the traffic from a Prometheus-compatible server instead, e.g. http://127.0.0.1:9090")
	f.StringVar(&r.HTTPConfig, "http-config", "",
		"file with an http_config of Prometheus for the server: TLS, bearer token file, basic auth, proxy")
	f.StringVar(&r.query, "query", "", "requests per second in PromQL, for --prometheus: sum(rate(gateway_requests_total[1m]))")
	f.StringVar(&r.start, "start", "-7d", "start of the range: 2026-11-14T00:00:00Z, seconds since 1970, or -7d before its end")
	f.StringVar(&r.end, "end", "now", "end of the range: a time, seconds since 1970, -1h before now, or now")
	f.DurationVar(&r.step, "step", time.Minute, "interval between two points; use the same length for the window in the query")
	f.StringVar(&r.save, "save", "", "file for the server's response, which all commands read as a trace")
}

// enabled reports whether the trace is fetched from a Prometheus server.
func (r *rangeFlags) enabled() bool { return r.Address != "" }

// open returns the trace. On the first call, it fetches the series from the server and stores the response. Later calls decode the stored
// response again. --save writes the response in the same format.
func (r *rangeFlags) open(ctx context.Context, o tracefile.Options) (*trace.Trace, error) {
	if r.answer == nil {
		span, err := r.span(time.Now()) // may use the clock: --start and --end refer to the time of the command
		if err != nil {
			return nil, err
		}
		if err := r.fetch(ctx, span); err != nil {
			return nil, err
		}
		if r.save != "" {
			if err := os.WriteFile(r.save, r.answer, 0o644); err != nil {
				return nil, err
			}
		}
	}
	o.Format = tracefile.Prometheus
	return tracefile.Read("--query "+r.query, bytes.NewReader(r.answer), o)
}

func (r *rangeFlags) span(now time.Time) (v1.Range, error) {
	out := v1.Range{Step: r.step}
	if r.query == "" {
		return out, errors.New("--prometheus needs --query: requests per second, e.g. sum(rate(gateway_requests_total[1m]))")
	}
	if r.step < time.Second {
		return out, fmt.Errorf("--step %s: use at least 1s", r.step)
	}
	var err error
	if out.End, err = instantOf("--end", r.end, now); err != nil {
		return out, err
	}
	if out.Start, err = instantOf("--start", r.start, out.End); err != nil {
		return out, err
	}
	if !out.Start.Before(out.End) {
		return out, fmt.Errorf("--start %s is not before --end %s", r.start, r.end)
	}
	if n := out.End.Sub(out.Start) / r.step; n > mostPoints {
		return out, fmt.Errorf("%s in steps of %s have %d points, at most %d are allowed: use a longer --step or a shorter range",
			out.End.Sub(out.Start), r.step, n, mostPoints)
	}
	return out, nil
}

// instantOf parses the text of a time flag: an RFC 3339 time, seconds since 1970, "now", or a negative duration such as -7d. "now" means
// the value of the parameter before, and a negative duration is added to this value.
func instantOf(flag, text string, before time.Time) (time.Time, error) {
	if text == "now" {
		return before, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if len(text) > 1 && text[0] == '-' {
		if d, err := model.ParseDuration(text[1:]); err == nil && d > 0 {
			return before.Add(-time.Duration(d)), nil
		}
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil && s > 0 && s < math.MaxInt32*8 {
		return time.UnixMilli(int64(s * 1000)).UTC(), nil
	}
	return time.Time{}, fmt.Errorf("%s %q: use 2026-11-14T00:00:00Z, seconds since 1970, now, or a negative duration such as -7d", flag, text)
}

// fetch splits the time range into several queries, and joins the results that have the same labels to one series.
func (r *rangeFlags) fetch(ctx context.Context, whole v1.Range) error {
	server, err := r.Prometheus.Open()
	if err != nil {
		return err
	}
	byLabels := map[model.Fingerprint]*model.SampleStream{}
	var all model.Matrix
	points := 0
	for at := whole.Start; !at.After(whole.End); at = at.Add(pointsAtOnce * whole.Step) {
		piece := v1.Range{Start: at, End: at.Add((pointsAtOnce - 1) * whole.Step), Step: whole.Step}
		if piece.End.After(whole.End) {
			piece.End = whole.End
		}
		answer, err := server.Range(ctx, r.query, piece)
		if err != nil {
			return fmt.Errorf("--prometheus %s: %w", r.Address, err)
		}
		for _, s := range answer {
			if points += len(s.Values); points > mostPoints {
				return fmt.Errorf("--query %s: more than %d points: use sum(), a longer --step or a shorter range", r.query, mostPoints)
			}
			known := byLabels[s.Metric.Fingerprint()]
			if known == nil {
				all = append(all, s)
				byLabels[s.Metric.Fingerprint()] = s
				continue
			}
			known.Values = append(known.Values, s.Values...)
			known.Histograms = append(known.Histograms, s.Histograms...)
		}
	}
	var saved struct {
		Status   string   `json:"status"`
		Warnings []string `json:"warnings,omitempty"`
		Data     struct {
			ResultType string       `json:"resultType"`
			Result     model.Matrix `json:"result"`
		} `json:"data"`
	}
	saved.Status, saved.Warnings, saved.Data.ResultType, saved.Data.Result = "success", server.Warnings(), "matrix", all
	r.answer, err = json.Marshal(&saved)
	return err
}
