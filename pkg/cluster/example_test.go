package cluster_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/cluster"
)

// A cluster of files: nothing is read from an API server.
func ExampleOffline() {
	c, err := cluster.Offline(nil, cluster.Options{})
	fmt.Println(c != nil, err)
}
