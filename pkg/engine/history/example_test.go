package history_test

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine/history"
)

// At 09:30, the newest entry is the change of 09:00.
func ExampleLog_At() {
	var log history.Log[string, string]
	day := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	log.Add("chat", day.Add(9*time.Hour), "4 replicas")
	log.Add("chat", day.Add(10*time.Hour), "6 replicas")
	entry, ok := log.At("chat", day.Add(9*time.Hour+30*time.Minute))
	fmt.Println(entry.At.Format("15:04"), entry.Value, ok)
	// Output: 09:00 4 replicas true
}
