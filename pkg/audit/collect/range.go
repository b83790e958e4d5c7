package collect

import (
	"context"
	"errors"
	"math"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/history"
)

// chunkSteps is the greatest number of steps of one query: with steps of five minutes, a query covers at most one day.
const chunkSteps = 288

// parallelQueries is the greatest number of queries that run at the same time. A Prometheus server runs 20 queries by default, for all
// its users.
const parallelQueries = 4

// over evaluates an expression for each step and calls the function take for each value, in the order of the steps. It reports whether the
// result had any value. It sends at most parallelQueries queries at the same time.
func (r *reader) over(ctx context.Context, expr string, take func(m model.Metric, step int, value float64)) (found bool, err error) {
	for from := 0; from < r.s.Steps; from += parallelQueries * chunkSteps {
		chunks, tooLarge := make([]model.Matrix, parallelQueries), make([]error, parallelQueries)
		all, inner := errgroup.WithContext(ctx)
		for i := range chunks {
			begin := from + i*chunkSteps
			if begin >= r.s.Steps {
				break
			}
			all.Go(func() (err error) {
				chunks[i], err = r.server.Range(inner, expr, v1.Range{Start: r.o.From.Add(time.Duration(begin+1) * r.o.Step),
					End: r.o.From.Add(time.Duration(min(begin+chunkSteps, r.s.Steps)) * r.o.Step), Step: r.o.Step})
				if errors.Is(err, history.ErrTooLarge) {
					tooLarge[i], err = err, nil
				}
				return err
			})
		}
		if err := all.Wait(); err != nil {
			return found, err
		}
		for i, m := range chunks {
			if tooLarge[i] != nil {
				// the gap omits the text of the error, which contains the query
				r.gap("a part of the "+r.part, "a response of the Prometheus server is too large", "use a shorter --since, a longer --step, "+
					"or a --matcher")
				return found, nil
			}
			found = r.each(m, take) || found
		}
	}
	return found, nil
}

// each calls the function take for each value of a response that belongs to a step. It reports whether there was such a value.
func (r *reader) each(m model.Matrix, take func(m model.Metric, step int, value float64)) (found bool) {
	for _, s := range m {
		for _, p := range s.Values {
			step := int(math.Round(float64(p.Timestamp.Time().Sub(r.o.From))/float64(r.o.Step))) - 1
			if v := float64(p.Value); step >= 0 && step < r.s.Steps && !math.IsNaN(v) {
				take(s.Metric, step, v)
				found = true
			}
		}
	}
	return found
}
