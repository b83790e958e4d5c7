package redisqueue_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/redisqueue"
)

func ExampleNew() {
	f, err := redisqueue.New(&policy.DataSource{Name: "queues", Type: policy.DataRedis}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
}
