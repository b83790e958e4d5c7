package fetch_test

import (
	"fmt"
	"net/netip"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
)

func ExampleGuard_Check() {
	guard := fetch.GuardFor("prometheus.monitoring.svc")
	fmt.Println(guard.Check(netip.MustParseAddr("10.0.0.7")))
	fmt.Println(guard.Check(netip.MustParseAddr("169.254.169.254")))
	// Output:
	// <nil>
	// address 169.254.169.254 refused
}
