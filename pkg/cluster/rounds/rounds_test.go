package rounds_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/rounds"
)

func ExampleEvery() {
	ctx, stop := context.WithCancel(context.Background())
	n := 0
	rounds.Every(ctx, time.Millisecond, func(time.Time) {
		if n++; n == 3 {
			stop()
		}
	})
	fmt.Println("stopped during round", n)
	// Output: stopped during round 3
}

// The period is ten seconds, and the second round takes 25 seconds. The third round must start when the second round ends. The fourth round
// must start at the next multiple of the period, so one round is skipped. No round may start after the context has ended.
func TestASlowRoundDelaysTheNextOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 52*time.Second)
		defer stop()
		start := time.Now()
		var began []time.Duration
		rounds.Every(ctx, 10*time.Second, func(time.Time) {
			if began = append(began, time.Since(start)); len(began) == 2 {
				time.Sleep(25 * time.Second)
			}
		})
		if got, want := fmt.Sprint(began), "[10s 20s 45s 50s]"; got != want {
			t.Errorf("rounds began after %s, want %s", got, want)
		}
		if time.Since(start) != 52*time.Second {
			t.Errorf("ended after %s, want 52s", time.Since(start))
		}
	})
}
