package history_test

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/common/config"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/history"
)

func ExampleOpen() {
	server, err := history.Open("http://prometheus.monitoring.svc:9090", config.DefaultHTTPClientConfig,
		history.Limits{Time: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	up, err := server.Instant(context.Background(), "up", time.Now())
	fmt.Println(len(up), err)
}
