package installation_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/installation"
)

func ExampleFail() {
	r := installation.Fail("Lease", "no replica leads", "read the log of the pods")
	fmt.Println(r.Status == installation.Failed, r.Found, r.Next)
	// Output: true no replica leads read the log of the pods
}
