package controller

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
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
		stopping  <-chan struct{}
		leaderErr error
		ends      bool
	}{
		"stopped by a signal":                 {stopped, nil, true},
		"the external scaler's port is taken": {running, errors.New("address already in use"), true},
		"both":                                {stopped, errors.New("address already in use"), true},
		"another replica leads already":       {running, nil, false},
	} {
		c := &controller{stopping: w.stopping}
		if got := c.ends(w.leaderErr); got != w.ends {
			t.Errorf("%s: ends %t", name, got)
		}
	}
}

// Without permission to read Nodes or NodePools, capacity groups of the PlatformConfig have no effect. The log must name these groups.
func TestGroupsThatDoNothingAreLogged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "platform.yaml")
	platform := "apiVersion: gpuscaler.io/v1alpha1\nkind: PlatformConfig\nmetadata: {name: prod}\nspec:\n  capacityGroups:\n" +
		"  - {name: chat, resource: nvidia.com/gpu, nodeSelector: {accelerator: l40s}}\n" +
		"  - {name: batch, resource: nvidia.com/gpu, nodePools: {spot: batch-spot}}\n"
	if err := os.WriteFile(file, []byte(platform), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, run := range []struct {
		options runOptions
		want    string
	}{
		{runOptions{}, "[chat batch]"},
		{runOptions{capacity: true}, "[batch]"},
		{runOptions{capacity: true, nodePools: true}, "[]"},
	} {
		var log bytes.Buffer
		c := &controller{options: run.options, log: slog.New(slog.NewTextHandler(&log, nil)), policies: store.New(store.Options{})}
		c.report(c.policies.Load(file))
		c.report(c.policies.Load(file)) // the file has not changed, so the groups are not logged a second time
		if err := os.WriteFile(file, []byte(strings.Replace(platform, "batch-spot", "other-spot", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		c.report(c.policies.Load(file)) // the file names another NodePool, but the same groups are disabled, so they are not logged again
		if err := os.WriteFile(file, []byte(platform), 0o600); err != nil {
			t.Fatal(err)
		}
		names := c.disabledGroups()
		// The engine does not decide for these groups, so it does not report their NodePools as missing.
		if groups := c.decidedGroups(); groups != nil {
			decided := groups.Groups()
			for _, g := range decided {
				if slices.Contains(names, g.Name) {
					t.Errorf("%+v: the engine decides for the disabled group %s", run.options, g.Name)
				}
			}
			if len(decided)+len(names) != 2 || &decided[0] != &groups.Groups()[0] {
				t.Errorf("%+v: %d groups in two slices, %d disabled", run.options, len(decided), len(names))
			}
		} else if len(names) != 2 {
			t.Errorf("%+v: no group is decided, disabled are %v", run.options, names)
		}
		if fmt.Sprint(names) != run.want {
			t.Errorf("%+v: disabled groups %v, want %s", run.options, names, run.want)
		}
		for _, name := range names {
			if strings.Count(log.String(), "group="+name) != 1 {
				t.Errorf("%+v: group %s is not reported once:\n%s", run.options, name, log.String())
			}
		}
		for name, next := range map[string]string{"chat": "Set the chart value readNodes to true", "batch": "Set the chart value mode to"} {
			if strings.Contains(log.String(), next) != slices.Contains(names, name) {
				t.Errorf("%+v: the next step of group %s is wrong:\n%s", run.options, name, log.String())
			}
		}
	}
}
