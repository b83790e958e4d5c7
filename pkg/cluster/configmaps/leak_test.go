package configmaps

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails when a goroutine outlives the tests: what a test starts must end when its context does.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
