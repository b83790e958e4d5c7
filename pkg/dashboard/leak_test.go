package dashboard

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails if a goroutine runs after the tests: each goroutine must end when the context of its test is canceled.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
