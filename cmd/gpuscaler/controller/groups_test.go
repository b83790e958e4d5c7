package controller

import (
	"errors"
	"testing"
)

// The limits must be removed when the process exits, whether because of SIGTERM or because of an error of the leader. No other replica may
// run later to remove them.
func TestLimitsAreRemovedWhenTheProcessEnds(t *testing.T) {
	stopped, running := make(chan struct{}), make(chan struct{})
	close(stopped)
	for name, w := range map[string]struct {
		stopping <-chan struct{}
		term     error
		ends     bool
	}{
		"stopped by a signal":                 {stopped, nil, true},
		"the external scaler's port is taken": {running, errors.New("address already in use"), true},
		"both":                                {stopped, errors.New("address already in use"), true},
		"another replica leads already":       {running, nil, false},
	} {
		c := &controller{stopping: w.stopping}
		if got := c.ends(w.term); got != w.ends {
			t.Errorf("%s: ends %t", name, got)
		}
	}
}
