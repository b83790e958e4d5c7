package audit

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/e2e/chart"
)

// SharedVariable is an environment variable with the path of a directory. Each test package writes the permissions that it used to a file
// in this directory, and Unused reads the files.
const SharedVariable = "GPUSCALER_E2E_RIGHTS"

// greatest is a release with all optional permissions, except the permissions for scaleKinds and readExternalMetrics, which depend on kinds
// and metrics that the user names.
var greatest = chart.Release{Name: "gpuscaler", Namespace: "gpuscaler-system", Values: map[string]any{
	"mode": "all", "keda": map[string]any{"manage": true}, "karpenter": map[string]any{"capacityBuffers": true},
	"activator": map[string]any{"namespaces": []any{"team"}}, "teamConfigMaps": map[string]any{"namespaces": []any{"team"}},
	"policyStatus": map[string]any{"namespaces": []any{"team"}},
}}

// Excused contains the permissions that no end-to-end test can use, each with the reason.
var Excused = map[string]string{
	"get leaderworkersets/scale.leaderworkerset.x-k8s.io":    lws,
	"update leaderworkersets/scale.leaderworkerset.x-k8s.io": lws,
}

const lws = "the LeaderWorkerSet controller is not among the real components; pkg/cluster shows these requests on a served kind"

// share records the permissions that this package's tests used, if SharedVariable is set.
func share(used map[right]bool) error {
	dir := os.Getenv(SharedVariable)
	if dir == "" {
		return nil
	}
	f, err := os.CreateTemp(dir, "rights-*.txt")
	if err != nil {
		return err
	}
	for r := range used {
		fmt.Fprintln(f, r)
	}
	return f.Close()
}

// Unused compares the permissions that the chart grants with the permissions that the test packages used. unused contains the granted
// permissions that no package used and that are not in Excused. stale contains the entries of Excused that a package used.
func Unused(dir string) (unused, stale []string, err error) {
	granted, err := rights(greatest)
	if err != nil {
		return nil, nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "rights-*.txt"))
	if err != nil {
		return nil, nil, err
	}
	if len(files) == 0 {
		return nil, nil, fmt.Errorf("no package has recorded its permissions in %s: run the tests with %s=%s", dir, SharedVariable, dir)
	}
	used := map[string]bool{}
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			return nil, nil, err
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			used[strings.TrimSpace(lines.Text())] = true
		}
		f.Close()
	}
	for _, r := range granted {
		switch name := r.String(); {
		case !used[name] && Excused[name] == "":
			unused = append(unused, name)
		case used[name] && Excused[name] != "":
			stale = append(stale, name)
		}
	}
	slices.Sort(unused)
	slices.Sort(stale)
	return slices.Compact(unused), slices.Compact(stale), nil
}
