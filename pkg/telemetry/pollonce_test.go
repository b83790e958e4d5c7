package telemetry

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// answers is a Transport that returns the text in the field body, or the status 500 if this text is empty.
type answers struct{ body string }

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	code := http.StatusOK
	if a.body == "" {
		code = http.StatusInternalServerError
	}
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
}

func TestPollOnceReadsEachSourceOnceByTheTransport(t *testing.T) {
	transport := &answers{}
	poller, err := New(Options{Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	prepare := func(all []*policy.Compiled, platform *policy.Platform) { poller.SetPolicies(all, platform) }
	policies := store.New(store.Options{Prepare: prepare})
	report := policies.LoadFS(fstest.MapFS{"all.yaml": {Data: []byte(`apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: test}
spec:
  dataSources: [{name: prom, type: prometheus, default: true, address: "https://prometheus.invalid:9090"}]
  queries: [{name: queue, source: prom, query: "queue_length offset 1m", workloadLabel: app}]
---
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: chat, namespace: team}
spec:
  scaleTargetRef: {name: chat}
  maxReplicas: 4
  signals: [{name: queue, type: prometheus, queryRef: queue, target: 10}]
`)}})
	if len(report.Problems) > 0 || len(policies.Current()) != 1 {
		t.Fatalf("policies %d, problems %v", len(policies.Current()), report.Problems)
	}
	read := func() scaling.Reading {
		out := make([]scaling.Reading, 1)
		poller.Read(&policies.Current()[0], out)
		return out[0]
	}
	if r := read(); r.Known || r.Cause != scaling.CauseNever {
		t.Fatalf("before the first poll: %+v", r)
	}
	poller.PollOnce(context.Background())
	if r := read(); r.Known || r.Failures != 1 {
		t.Fatalf("after one failed poll: %+v", r)
	}
	transport.body = fmt.Sprintf(`{"status":"success","data":{"resultType":"vector","result":[
		{"metric":{"gpuscaler_part":"value","namespace":"team","app":"chat"},"value":[%d,"17"]}]}}`, time.Now().Unix())
	poller.PollOnce(context.Background())
	if r := read(); !r.Known || r.Value != 17 || r.Failures != 0 {
		t.Fatalf("after a successful poll: %+v", r)
	}
}
