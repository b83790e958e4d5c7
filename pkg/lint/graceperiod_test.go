package lint

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// durations are the requests of a pod of the Deployment llama, and of a pod of the Deployment llama-70b with longer requests. Two of 100
// requests of the first pod take between 60 and 120 seconds.
const durations = healthy + `
vllm:e2e_request_latency_seconds_bucket{namespace="chat",pod="llama-5fd8-abcde",le="60"} 0+98x40
vllm:e2e_request_latency_seconds_bucket{namespace="chat",pod="llama-5fd8-abcde",le="120"} 0+100x40
vllm:e2e_request_latency_seconds_bucket{namespace="chat",pod="llama-5fd8-abcde",le="+Inf"} 0+100x40
vllm:e2e_request_latency_seconds_bucket{namespace="chat",pod="llama-70b-5fd8-abcde",le="120"} 0+0x40
vllm:e2e_request_latency_seconds_bucket{namespace="chat",pod="llama-70b-5fd8-abcde",le="600"} 0+1000x40
vllm:e2e_request_latency_seconds_bucket{namespace="chat",pod="llama-70b-5fd8-abcde",le="+Inf"} 0+1000x40
`

func TestGracePeriodShorterThanRequestsIsReported(t *testing.T) {
	buckets := []string{"vllm:e2e_request_latency_seconds_bucket", "vllm_e2e_request_latency_seconds_bucket"}
	short, enough, pods := 30*time.Second, 90*time.Second, "llama-[a-z0-9]{1,10}-[a-z0-9]{5}"
	few := strings.NewReplacer("0+98x", "0+.98x", "0+100x", "0+1x").Replace(durations)
	for name, c := range map[string]struct {
		ending Ending
		series string
		want   bool
	}{
		"a data source with other labels": {Ending{"Deployment llama", pods, &short, buckets, "k8s_ns", "k8s_pod"},
			strings.NewReplacer("bucket{namespace=", "bucket{k8s_ns=", `pod="llama-5fd8`, `k8s_pod="llama-5fd8`).Replace(durations), true},
		"Kubernetes' default":        {Ending{"Deployment llama", pods, &short, buckets, "", ""}, durations, true},
		"as long as the requests":    {Ending{"Deployment llama", pods, &enough, buckets, "", ""}, durations, false},
		"the template was not read":  {Ending{"Deployment llama", pods, nil, buckets, "", ""}, durations, false},
		"few requests":               {Ending{"Deployment llama", pods, &short, buckets, "", ""}, few, false},
		"a server without durations": {Ending{"Deployment llama", pods, &short, nil, "", ""}, durations, false},
		"no request":                 {Ending{"Deployment llama", pods, &short, buckets, "", ""}, healthy, false},
	} {
		subject := Subject{About: "ScalingPolicy chat/llama", Namespace: "chat", MinReplicas: 1, Ending: c.ending,
			Signals: []Signal{{Name: "queue", Names: []string{"vllm:num_requests_waiting"}}}}
		found := findingsOf(t, c.series, nil, subject)
		if got := slices.Equal(checks(found), []string{GraceTooShort}); got != c.want || len(checks(found)) > 1 {
			t.Errorf("%s: %+v", name, found)
		}
		if c.want && (!strings.Contains(found[0].What, "took more than 90s, and terminationGracePeriodSeconds of Deployment llama is 30") ||
			!strings.Contains(found[0].Fix, "set terminationGracePeriodSeconds: 90 or more")) {
			t.Errorf("%s: %+v", name, found[0])
		}
	}
}

// The series have the labels that are configured for the data source from which the policy reads the model server.
func TestLabelsOfDurationsAreThoseOfTheDataSource(t *testing.T) {
	platform := &policy.Platform{DataSources: []policy.DataSource{
		{Name: "prom", Type: policy.DataPrometheus, Default: true, NamespaceLabel: "k8s_ns", PodLabel: "k8s_pod"},
		{Name: "pods", Type: policy.DataScrape}, {Name: "other", Type: policy.DataPrometheus}}}
	for source, want := range map[string]string{"prom": "k8s_ns k8s_pod", "pods": "k8s_ns k8s_pod", "": "k8s_ns k8s_pod", "other": " "} {
		c := &policy.Compiled{Workload: scaling.Workload{Key: scaling.Key{Namespace: "chat", Name: "llama"},
			Target: scaling.Target{Kind: "Deployment", Name: "llama"}, Policy: &scaling.Policy{Signals: make([]scaling.Signal, 1)}},
			Sources: []policy.Source{{Type: policy.SourceVLLM, DataSource: source, Metric: "requestsWaiting"}}}
		all := Policies([]*policy.Compiled{c}, platform)
		if e := all[0].Ending; e.NamespaceLabel+" "+e.PodLabel != want {
			t.Errorf("data source %q: labels %q and %q, want %q", source, e.NamespaceLabel, e.PodLabel, want)
		}
		if got := Unchecked(all); !slices.Equal(got, []string{"Deployment chat/llama"}) {
			t.Errorf("without the template: %v", got)
		}
	}
}

func TestDurationsOfRequestsAreKnownForModelServersWithHistograms(t *testing.T) {
	policies := store.New(store.Options{})
	policies.Load("../../config/examples")
	known := 0
	for i, c := range policies.Compiled() {
		s := Policies(policies.Compiled(), policies.Platform())[i]
		if !strings.HasPrefix(s.Ending.Pods, c.Workload.Target.Name+"-[") {
			t.Errorf("%s: pods %s", s.About, s.Ending.Pods)
		}
		if slices.Contains(s.Ending.Buckets, "vllm:e2e_request_latency_seconds_bucket") {
			known++
		}
	}
	if known == 0 {
		t.Error("no example with vLLM has durations of requests")
	}
}
