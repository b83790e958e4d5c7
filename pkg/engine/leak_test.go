package engine

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails if a goroutine still runs after the tests. Each goroutine must end when the context of its test is canceled.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
