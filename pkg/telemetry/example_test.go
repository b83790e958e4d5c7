package telemetry_test

import (
	"context"
	"log/slog"

	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry"
)

// A Poller reads the signals of all policies in the background. A tick reads the newest readings from memory.
func Example() {
	poller, err := telemetry.New(telemetry.Options{Logger: slog.Default()})
	if err != nil {
		panic(err)
	}
	policies := store.New(store.Options{Prepare: poller.SetPolicies})
	policies.Load("/etc/gpuscaler")
	go func() { _ = poller.Run(context.Background()) }()
	for _, c := range policies.Compiled() {
		readings := make([]scaling.Reading, len(c.Sources))
		poller.Read(&c.Workload, readings)
	}
}
