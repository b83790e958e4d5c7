package migrate

import (
	"fmt"
	"strconv"
	"strings"
)

// Version is a minor version of KEDA 2, for example 14. The zero value means the newest known version. Version implements the interface of
// command-line flags.
type Version int

// The first three constants are the minor versions of KEDA 2 that introduced a field of ScaledObjects. The API server rejects a manifest
// with a field that the installed version of KEDA does not define. newestKEDA is the newest known minor version.
const (
	fallbackBehavior = 17
	tolerance        = 18
	formulaFallback  = 20
	newestKEDA       = 21
)

func (v Version) before(minor int) bool { return v > 0 && int(v) < minor }

// String returns the version in the form that KEDA uses, for example 2.14.
func (v Version) String() string {
	if v == 0 {
		v = newestKEDA
	}
	return "2." + strconv.Itoa(int(v))
}

// Set parses a version such as 2.14, v2.14 or 2.14.1.
func (v *Version) Set(text string) error {
	parts := strings.Split(strings.TrimPrefix(text, "v"), ".")
	minor, err := 0, error(nil)
	if len(parts) > 1 {
		minor, err = strconv.Atoi(parts[1])
	}
	if err != nil || len(parts) < 2 || len(parts) > 3 || parts[0] != "2" || minor < 1 {
		return fmt.Errorf("want a version of KEDA 2, for example 2.18")
	}
	*v = Version(minor)
	return nil
}

// Type returns the name of the value for the help text.
func (v *Version) Type() string { return "version" }

// notes returns a note for each feature that the manifest lacks because this version of KEDA does not support it.
func (v Version) notes() (notes []string) {
	if v.before(fallbackBehavior) {
		notes = append(notes, "KEDA before 2.17 has no fallback.behavior, and its fallback would scale down to a fixed count: so the manifest "+
			"has none, and "+
			"replicas do not change while gpuscaler is not available.")
	}
	if v.before(tolerance) {
		notes = append(notes, "KEDA before 2.18 has no tolerance: the HPA ignores changes of up to 10% (10 -> 11 never happens), unless "+
			"kube-controller-manager "+
			"runs with --horizontal-pod-autoscaler-tolerance=0.")
	}
	return notes
}
