package evaluate_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Workload runs a policy on fifteen minutes of traffic and compares its cost with the cost of four fixed replicas. A gate fails a pipeline
// if too few requests are on time.
func ExampleWorkload() {
	profile, _ := trace.Preset("flat")
	profile.Duration, profile.Rate, profile.Seed = 15*time.Minute, 2, 3
	traffic, err := trace.Generate(profile)
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := evaluate.Workload(context.Background(), evaluate.Case{
		Policy: &policy.Compiled{
			Workload: scaling.Workload{Key: scaling.Key{Namespace: "team-chat", Name: "llama"}, Policy: &scaling.Policy{
				Signals: []scaling.Signal{{Name: "load", Type: "prometheus", Target: 7, MaxAge: 2 * time.Minute}}, MaxReplicas: 8,
			}},
			Sources: []policy.Source{{Type: policy.SourcePrometheus}},
		},
		Traffic: traffic, Service: simulator.Chat8B, Measures: map[string]measure.Measure{"load": measure.InSystem},
		SLO: evaluate.SLO{Share: 0.95, Wait: 10 * time.Second}, Initial: 2, Static: 4, ColdStart: time.Minute, Hourly: 2, Seed: 1,
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, run := range report.Runs {
		fmt.Printf("%s: meets the SLO: %t, $%.2f\n", run.Name, run.MeetsSLO, run.Cost)
	}
	gate, err := evaluate.ParseGate("slo<0.95")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("failed gates:", report.Check([]evaluate.Gate{gate}))
	// Output:
	// gpuscaler: meets the SLO: false, $1.77
	// static fleet: meets the SLO: true, $2.02
	// failed gates: 1
}
