package record

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
)

// LogsSyncs is the flag with which kube-controller-manager logs every sync of every HPA.
const LogsSyncs = "--vmodule=horizontal=4"

// Sync is one sync of the real HPA controller, read from its log.
type Sync struct {
	At       time.Time // time of the sync's first log line, which the controller writes after it has read the metrics
	End      time.Time // time of the sync's second log line, which the controller writes after it has changed or kept the replicas
	Proposed int32     // replicas that the metrics propose
	Known    bool      // whether the HPA computed Proposed; false while its scale target has zero replicas
	Failed   bool      // whether the HPA failed to read its metrics
	Replicas int32     // spec.replicas after the sync
}

// Syncs reads the syncs of an HPA from the controller manager's log, oldest first.
func Syncs(log string, autoscaler client.ObjectKey, deployment string) (all []Sync, err error) {
	f, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	target := fmt.Sprintf("Deployment/%s/%s", autoscaler.Namespace, deployment)
	var s Sync
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text := lines.Text()
		ours := strings.Contains(text, fmt.Sprintf("scaleTarget=%q", target))
		var ends bool
		switch {
		case ours && strings.Contains(text, `"Proposing desired replicas`):
			s.Known, ends = true, false
			s.Proposed, err = logged(text)
		case ours && strings.Contains(text, `"Decided not to scale"`), strings.Contains(text,
			`"Successfully rescaled" HPA="`+autoscaler.String()+`"`):
			s.Replicas, err = logged(text)
			ends = true
		case strings.Contains(text, "failed to compute desired number of replicas based on listed metrics for "+target+":"):
			s.Failed, ends = true, true
		default:
			continue
		}
		if err == nil {
			s.End, err = loggedAt(text)
		}
		if s.At.IsZero() {
			s.At = s.End
		}
		if err != nil {
			return nil, fmt.Errorf("%w in %s", err, text)
		}
		if ends {
			all = append(all, s)
			s = Sync{}
		}
	}
	return all, lines.Err()
}

// Written returns the replicas of the Deployment after the initial number start and after each sync, as steps.
func Written(start int32, syncs []Sync) (s Steps) {
	for _, sync := range syncs {
		if !sync.Failed {
			s = s.add(sync.At, start).add(sync.At, sync.Replicas)
			start = sync.Replicas
		}
	}
	return s
}

// logged returns the value of desiredReplicas in a log line.
func logged(text string) (int32, error) {
	_, rest, ok := strings.Cut(text, "desiredReplicas=")
	if !ok {
		return 0, fmt.Errorf("no desiredReplicas")
	}
	number, _, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseInt(number, 10, 32)
	return int32(n), err
}

// loggedAt returns the time of a klog line. klog does not write the year, so the current year is used.
func loggedAt(text string) (time.Time, error) {
	const form = "20060102 15:04:05.000000"
	if len(text) < 21 {
		return time.Time{}, fmt.Errorf("no time")
	}
	return time.ParseInLocation(form, fmt.Sprint(time.Now().Year())+text[1:21], time.Local)
}

// Agrees runs the replay's HPA with the times and the proposals of the real HPA's syncs. It returns an error if the two HPAs have different
// replicas after a sync.
func Agrees(spec *hpa.Spec, start int32, syncs []Sync) error {
	return Fits(syncs, func(at []time.Time) (int, error) {
		var c hpa.Controller
		current := start
		for i, s := range syncs {
			var verdict hpa.Verdict
			current, verdict = c.Sync(spec, at[i], current, []hpa.Proposal{{Replicas: s.Proposed, Known: s.Known}})
			switch {
			case s.Failed != (verdict == hpa.Failed):
				return i, fmt.Errorf("sync %d at %s: the metrics failed: %t, and the replay returned %d", i, clock(s.At), s.Failed, verdict)
			case !s.Failed && current != s.Replicas:
				return i, fmt.Errorf("sync %d at %s: %d proposed; the HPA wrote %d, the replay %d", i, clock(s.At), s.Proposed, s.Replicas, current)
			}
		}
		return len(syncs), nil
	})
}

const (
	// reach is longer than every stabilization window and rate period in the tests. A sync has no effect on syncs that are later by more than
	// this time.
	reach = 15 * time.Second
	// unclear is the maximum number of syncs for which Fits tries two times: the time of the first log line and of the second log line. These
	// are the last syncs up to the first sync whose result differs.
	unclear = 8
)

// Fits replays the syncs of the real HPA with different possible times. The HPA reads the clock at an unknown time between the two log
// lines of a sync. There is usually a millisecond between these lines. If the machine stalled or the API server was slow, there are seconds
// between the lines, and a stabilization window or rate period may end in this time.
//
// Fits calls attempt with one time for each sync. attempt returns the index of the first sync whose result differs from the real HPA's, or
// the number of syncs if none differs. Fits returns nil if it finds times at which no sync differs. Otherwise it returns the error of the
// attempt with the highest index.
func Fits(syncs []Sync, attempt func(at []time.Time) (int, error)) error {
	at := make([]time.Time, len(syncs))
	for i := range syncs {
		at[i] = syncs[i].At
	}
	reached, err := attempt(at)
	for better := true; err != nil && reached < len(syncs) && better; {
		better = false
		var open []int
		for i := reached; i >= 0 && len(open) < unclear && syncs[reached].At.Sub(syncs[i].End) < reach; i-- {
			if syncs[i].End.After(syncs[i].At) {
				open = append(open, i)
			}
		}
		for set := 1; set < 1<<len(open) && !better; set++ {
			tried := slices.Clone(at)
			for b, i := range open {
				if set&(1<<b) != 0 {
					tried[i] = other(syncs[i], at[i])
				}
			}
			if r, e := attempt(tried); r > reached {
				at, reached, err, better = tried, r, e, true
			}
		}
	}
	return err
}

// other returns the second possible time of a sync: its end if at is its start, and its start otherwise.
func other(s Sync, at time.Time) time.Time {
	if at.Equal(s.At) {
		return s.End
	}
	return s.At
}
