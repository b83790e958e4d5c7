package migrate

import (
	"fmt"
	"strconv"
	"strings"
)

// Version is a minor version of KEDA 2, such as 14; the zero value is the newest that we know. It is a flag's value.
type Version int

// The minor versions with which the CRD of ScaledObjects learned a field. An API server with an older one refuses a manifest that has it.
const (
	fallbackBehavior = 17
	tolerance        = 18
	formulaFallback  = 20
	newestKEDA       = 21
)

func (v Version) before(minor int) bool { return v > 0 && int(v) < minor }

// String is the version as KEDA writes it.
func (v Version) String() string {
	if v == 0 {
		v = newestKEDA
	}
	return "2." + strconv.Itoa(int(v))
}

// Set reads 2.14, v2.14 or 2.14.1.
func (v *Version) Set(text string) error {
	parts := strings.Split(strings.TrimPrefix(text, "v"), ".")
	minor, err := 0, error(nil)
	if len(parts) > 1 {
		minor, err = strconv.Atoi(parts[1])
	}
	if err != nil || len(parts) < 2 || len(parts) > 3 || parts[0] != "2" || minor < 1 {
		return fmt.Errorf("want a version of KEDA 2, such as 2.18")
	}
	*v = Version(minor)
	return nil
}

// Type names the value in a command's help.
func (v *Version) Type() string { return "version" }

// notes say what a manifest without the newer fields cannot do.
func (v Version) notes() (notes []string) {
	if v.before(fallbackBehavior) {
		notes = append(notes, "KEDA before 2.17 knows no fallback.behavior, and its fallback would lower a workload to a fixed count: so there is none, and while gpuscaler is away everything stays where it is.")
	}
	if v.before(tolerance) {
		notes = append(notes, "KEDA before 2.18 passes no tolerance on: the HPA ignores steps of up to a tenth (10 -> 11 never happens), unless kube-controller-manager runs with --horizontal-pod-autoscaler-tolerance=0.")
	}
	return notes
}
