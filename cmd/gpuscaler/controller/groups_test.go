package controller

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
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

// A role without permission to read Nodes leaves the groups of the PlatformConfig without effect. An operator must learn it from the log.
func TestGroupsThatDoNothingAreLogged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "platform.yaml")
	platform := "apiVersion: gpuscaler.io/v1alpha1\nkind: PlatformConfig\nmetadata: {name: prod}\nspec:\n  capacityGroups:\n" +
		"  - {name: chat, resource: nvidia.com/gpu, nodeSelector: {accelerator: l40s}}\n"
	if err := os.WriteFile(file, []byte(platform), 0o600); err != nil {
		t.Fatal(err)
	}
	for capacity, want := range map[bool]int{false: 1, true: 0} {
		var log bytes.Buffer
		c := &controller{options: runOptions{capacity: capacity}, log: slog.New(slog.NewTextHandler(&log, nil)),
			policies: store.New(store.Options{})}
		c.report(c.policies.Load(file))
		c.report(c.policies.Load(file)) // nothing has changed, so nothing is logged again
		if n := strings.Count(log.String(), "group=chat"); n != want || want > 0 && !strings.Contains(log.String(), "readNodes") {
			t.Errorf("capacity %t: the group is reported %d times, want %d:\n%s", capacity, n, want, log.String())
		}
		if n := len(c.disabledGroups()); n != want {
			t.Errorf("capacity %t: %d disabled groups, want %d", capacity, n, want)
		}
	}
}
