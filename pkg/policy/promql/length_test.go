package promql

import (
	"strings"
	"testing"
)

func TestQueriesOfEightKilobytesAreParsed(t *testing.T) {
	if _, err := Parse("up" + strings.Repeat(" ", maxQuery-2)); err != nil {
		t.Errorf("%d characters: %v", maxQuery, err)
	}
	const want = "the query is longer than 8192 characters"
	if _, err := Parse("up" + strings.Repeat(" ", maxQuery-1)); err == nil || err.Error() != want {
		t.Errorf("%d characters: %v, want %s", maxQuery+1, err, want)
	}
}
