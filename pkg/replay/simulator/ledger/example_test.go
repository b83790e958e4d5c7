package ledger_test

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
)

func ExampleLedger() {
	var gpuTime ledger.Ledger
	gpuTime[ledger.Serving] = 3 * time.Hour
	gpuTime[ledger.Headroom] = time.Hour
	gpuTime.Add(&ledger.Ledger{ledger.Launching: 2 * time.Minute})
	fmt.Println(gpuTime.Sum(), "paid,", gpuTime.Idle(), "idle")
	// Output:
	// 4h2m0s paid, 1h2m0s idle
}
