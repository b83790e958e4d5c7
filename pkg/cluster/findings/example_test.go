package findings_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/findings"
)

// Run checks the objects every ten seconds, until its context ends.
func ExampleReporter_Run() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := findings.New(findings.Options{Cache: cache.New(0), Policies: cache.NewPolicies(nil), Log: slog.New(slog.DiscardHandler),
		Leading: func() bool { return true }})
	r.Run(ctx)
	fmt.Println(ctx.Err())
	// Output: context canceled
}
