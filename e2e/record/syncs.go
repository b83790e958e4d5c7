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

// LogsSyncs is what kube-controller-manager is told so that its log has every sync of every HPA.
const LogsSyncs = "--vmodule=horizontal=4"

// Sync is one look of the real HPA controller, as its log tells.
type Sync struct {
	At       time.Time // when it had read its metrics
	End      time.Time // when it had written, or decided not to
	Proposed int32     // what they ask for
	Known    bool      // they could be read; nobody reads them while the target is at zero
	Failed   bool      // they could not
	Replicas int32     // what spec.replicas was to be afterwards
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
		case ours && strings.Contains(text, `"Decided not to scale"`), strings.Contains(text, `"Successfully rescaled" HPA="`+autoscaler.String()+`"`):
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

// Written is the course of what an HPA wrote, from where it started.
func Written(start int32, syncs []Sync) (s Steps) {
	for _, sync := range syncs {
		if !sync.Failed {
			s = s.add(sync.At, start).add(sync.At, sync.Replicas)
			start = sync.Replicas
		}
	}
	return s
}

// logged is the desiredReplicas of a line.
func logged(text string) (int32, error) {
	_, rest, ok := strings.Cut(text, "desiredReplicas=")
	if !ok {
		return 0, fmt.Errorf("no desiredReplicas")
	}
	number, _, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseInt(number, 10, 32)
	return int32(n), err
}

// loggedAt is when klog wrote a line; it leaves out the year.
func loggedAt(text string) (time.Time, error) {
	const form = "20060102 15:04:05.000000"
	if len(text) < 21 {
		return time.Time{}, fmt.Errorf("no time")
	}
	return time.ParseInLocation(form, fmt.Sprint(time.Now().Year())+text[1:21], time.Local)
}

// Agrees runs the replay's HPA, on replicas of its own, through the proposals of the real one's syncs at their instants: after every
// sync both must have written the same number.
func Agrees(spec *hpa.Spec, start int32, syncs []Sync) error {
	return Fits(syncs, func(at []time.Time) (int, error) {
		var c hpa.Controller
		current := start
		for i, s := range syncs {
			var verdict hpa.Verdict
			current, verdict = c.Sync(spec, at[i], current, []hpa.Proposal{{Replicas: s.Proposed, Known: s.Known}})
			switch {
			case s.Failed != (verdict == hpa.Failed):
				return i, fmt.Errorf("sync %d at %s: the metrics failed: %t, and the replay said %d", i, clock(s.At), s.Failed, verdict)
			case !s.Failed && current != s.Replicas:
				return i, fmt.Errorf("sync %d at %s: %d proposed; the HPA went to %d, the replay to %d", i, clock(s.At), s.Proposed, s.Replicas, current)
			}
		}
		return len(syncs), nil
	})
}

const (
	// reach is longer than the windows and periods of a test's HPAs: what a sync of so long ago did counts no more.
	reach = 15 * time.Second
	// unclear is how many syncs before a difference are tried at another instant.
	unclear = 8
)

// Fits tries a replay of syncs at the instants that their log allows. A sync read the clock somewhere between its two lines: a
// millisecond apart as a rule, seconds where the machine stalled or the API server was slow to take the write, and then a window's edge
// may lie between them. The attempt gets an instant for each sync and returns the first that differs from the real one, or how many
// there are. Fits returns nil if instants are found at which none differs, else the error of the attempt that got farthest.
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

// other is a sync's other instant: its end for its beginning, and the other way round.
func other(s Sync, at time.Time) time.Time {
	if at.Equal(s.At) {
		return s.End
	}
	return s.At
}
