package promquery

import (
	"cmp"
	"context"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// templateQuery sends one query of the platform team for many workloads. It finds the workload of each series by labels.
type templateQuery struct {
	api      *promapi.Client
	query    string
	matchers map[string]string
	text     string // the query, extended so that it also returns sample times
	ages     ages
	join     join
	separate bool // whether the query computes the value of each namespace from the series of that namespace alone
}

func newTemplateQuery(s *Server, q *policy.Source) (*templateQuery, error) {
	namespace := cmp.Or(q.NamespaceLabel, s.DataSource.NamespaceLabel, "namespace")
	expr, err := addMatchers(q.Query, s.DataSource.Matchers)
	if err != nil {
		return nil, err
	}
	t := &templateQuery{api: s.API, query: q.Query, matchers: s.DataSource.Matchers, join: join{labels: []string{namespace}}}
	t.separate = separable(expr, namespace)
	if q.WorkloadLabel != "" {
		t.join.labels = append(t.join.labels, q.WorkloadLabel)
	}
	t.text, t.ages, err = withAges(expr, t.join.labels)
	return t, err
}

func (t *templateQuery) divisible() bool { return t.separate }

func (t *templateQuery) run(ctx context.Context, p *part) (int64, error) {
	j, text := &t.join, t.text
	if p.namespaces != nil {
		expr, err := addMatchers(t.query, t.matchers)
		if err != nil {
			return 0, err
		}
		restrictTo(expr, t.join.labels[0], p.namespaces)
		if text, _, err = withAges(expr, t.join.labels); err != nil {
			return 0, err
		}
		j = &join{labels: t.join.labels}
	}
	byWorkload := len(j.labels) == 2
	j.prepare(p.requests, func(b []byte, r *source.Request) []byte {
		b = appendKey(b, r.Namespace())
		if byWorkload {
			b = appendKey(b, cmp.Or(r.Source.LabelValue, r.Workload.Target.Name))
		}
		return b
	})
	j.expect(t.ages)
	n, err := t.api.With(p.limits).Query(ctx, text, j.counted(p, j.labels[0]))
	if err != nil {
		return n, err
	}
	j.readings(p.out)
	j.release()
	return n, nil
}
