package main

import (
	"errors"
	"testing"
)

// A term that fails ends the process as much as SIGTERM does: nobody may be there to lift a limit afterwards.
func TestLimitsAreTakenBackWhereTheProcessEnds(t *testing.T) {
	told, goesOn := make(chan struct{}), make(chan struct{})
	close(told)
	for name, w := range map[string]struct {
		stopping <-chan struct{}
		term     error
		ends     bool
	}{
		"told to stop":                        {told, nil, true},
		"the external scaler's port is taken": {goesOn, errors.New("address already in use"), true},
		"both":                                {told, errors.New("address already in use"), true},
		"overtaken: the next leader goes on":  {goesOn, nil, false},
	} {
		c := &controller{stopping: w.stopping}
		if got := c.ends(w.term); got != w.ends {
			t.Errorf("%s: ends %t", name, got)
		}
	}
}
