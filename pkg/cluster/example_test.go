package cluster_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/cluster"
)

// Offline returns a cluster that contains only the given objects, here none. It reads nothing from an API server.
func ExampleOffline() {
	c, err := cluster.Offline(nil, cluster.Options{})
	fmt.Println(c != nil, err)
}
