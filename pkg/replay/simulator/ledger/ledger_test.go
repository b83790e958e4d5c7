package ledger

import (
	"encoding/json"
	"testing"
	"time"
)

// A program that reads the JSON output of a replay gets the GPU time of each cause.
func TestLedgerIsTheSameAfterJSON(t *testing.T) {
	want := Ledger{Serving: 90 * time.Minute, Cooldown: 1500 * time.Millisecond, Terminating: time.Nanosecond}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got := Ledger{Empty: time.Hour}
	if err := json.Unmarshal(text, &got); err != nil || got != want {
		t.Errorf("%v, %v from %s, want %v", got, err, text, want)
	}
	for _, invalid := range []string{`{"sleeping":1}`, `{"serving":"1s"}`, `[1]`} {
		if err := json.Unmarshal([]byte(invalid), &got); err == nil {
			t.Errorf("%s was accepted", invalid)
		}
	}
}
