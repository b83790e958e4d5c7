package evaluate

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// openPolicy reads policies as the controller does and returns the policy with the given name. An empty name selects the only policy.
func openPolicy(paths []string, name string, notes io.Writer) (*policy.Compiled, error) {
	found, err := openPolicies(paths, []string{name}, notes)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// openPolicies reads policies as the controller does and returns the policies with the given names. An empty name selects the only policy.
func openPolicies(paths, names []string, notes io.Writer) ([]*policy.Compiled, error) {
	policies, err := loadPolicies(paths, notes)
	if err != nil {
		return nil, err
	}
	return selectPolicies(policies, paths, names)
}

// selectPolicies returns the policies with the given names. An empty name selects the only policy.
func selectPolicies(from *store.Store, paths, names []string) ([]*policy.Compiled, error) {
	all := from.Compiled()
	var there []string
	for _, c := range all {
		there = append(there, c.Workload.Key.String())
	}
	if len(there) == 0 {
		return nil, fmt.Errorf("%s: no policy found", strings.Join(paths, ", "))
	}
	out := make([]*policy.Compiled, len(names))
	for i, name := range names {
		at := slices.Index(there, name)
		switch {
		case name == "" && len(all) == 1:
			at = 0
		case at < 0:
			return nil, fmt.Errorf("--policy-name %q: not found; use one of %s", name, strings.Join(there, ", "))
		}
		out[i] = all[at]
	}
	return out, nil
}

// loadPolicies reads policies as the controller does. If none of the files has a PlatformConfig, it also reads the file that platformNear
// returns.
func loadPolicies(paths []string, notes io.Writer) (*store.Store, error) {
	policies := store.New(store.Options{})
	problems := policies.Load(paths...).Problems
	if policies.Platform().Origin == "" {
		if beside := platformNear(paths[0]); beside != "" {
			fmt.Fprintln(notes, "also read", beside)
			policies = store.New(store.Options{})
			problems = policies.Load(append([]string{beside}, paths...)...).Problems
		}
	}
	if policy.Errors(problems) > 0 {
		return nil, fmt.Errorf("the controller would reject the policies:\n%s", strings.TrimSpace(policy.Render(problems)))
	}
	return policies, nil
}

// platformNear returns the path of platform.yaml in the policy's directory or its parent, or "" if neither has one.
func platformNear(path string) string {
	folder := filepath.Dir(path)
	for _, dir := range []string{folder, filepath.Join(folder, "..")} {
		near := filepath.Join(dir, "platform.yaml")
		if info, err := os.Stat(near); err == nil && info.Mode().IsRegular() {
			return near
		}
	}
	return ""
}
