package controller

import (
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/restore"
)

// If the user is not allowed to list a kind of objects, the output of restore must name this kind. It must not claim that no object has
// changes by gpuscaler.
func TestRestoreNamesKindsThatWereNotSearched(t *testing.T) {
	skipped := restore.Result{Object: "ConfigMap", Skipped: "you may not list this kind"}
	failed := restore.Result{Object: "NodePool gpu", Error: "conflict"}
	hpa := restore.Result{Object: "HorizontalPodAutoscaler team/chat", Changes: []string{"gpuscaler.io/policy-status removed"}}
	const line = "ConfigMap  not searched: you may not list this kind\n"
	for _, c := range []struct {
		story string
		done  []restore.Result
		want  string
		err   string
	}{
		{"nothing has changes", nil, "nothing to restore: no object has changes by gpuscaler, and no CapacityBuffer is its own\n", ""},
		{"one kind was not searched", []restore.Result{skipped}, "nothing to restore in the objects that were searched\n" + line, ""},
		{"another has changes", []restore.Result{hpa, skipped},
			hpa.Object + "  restored\n  gpuscaler.io/policy-status removed\n" + line, ""},
		{"a failure", []restore.Result{failed, skipped}, "NodePool gpu  not restored: conflict\n" + line,
			"1 of 1 objects not restored, see above; fix the causes and run the command again"},
	} {
		var out strings.Builder
		err := (&restoreOptions{output: "text"}).print(&out, c.done)
		if out.String() != c.want || (err != nil) != (c.err != "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: %v\n%s\nwant %s", c.story, err, out.String(), c.want)
		}
	}
	var out strings.Builder
	if err := (&restoreOptions{output: "json"}).print(&out, []restore.Result{skipped}); err != nil ||
		!strings.Contains(out.String(), `"skipped": "you may not list this kind"`) || !strings.Contains(out.String(), `"restored": []`) {
		t.Errorf("%v, %s", err, out.String())
	}
}
