package store_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails if a goroutine is still running after all tests. Every goroutine must end when the context of the test that started it
// ends.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
