package rejections_test

import (
	"context"
	"fmt"
	"log/slog"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/rejections"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

type noPolicies struct{}

func (noPolicies) Current() []scaling.Workload { return nil }

// Run reads Events every ten seconds, until its context ends.
func ExampleReader_Run() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	rejections.New(fake.NewClientset().CoreV1(), cache.New(0), noPolicies{}, slog.Default()).Run(ctx)
	fmt.Println(ctx.Err())
	// Output: context canceled
}
