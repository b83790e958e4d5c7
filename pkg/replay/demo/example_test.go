package demo_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/demo"
)

// Without a Clock the demo does not wait: an hour of its three policies takes less than a second.
func ExampleNew() {
	d, err := demo.New(demo.Options{For: time.Hour, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := d.Run(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range d.Summary().Policies {
		fmt.Printf("%s: target %d\n", p.Policy, p.Target)
	}
	// Output:
	// team-batch/night-batch: target 0
	// team-chat/llama-chat: target 3
	// team-embed/embed-worker: target 0
}
