package dashboard

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// maxLogLine bounds a line of a log: a transition of a policy with all its signals and schedules has about 6 KB.
const maxLogLine = 1 << 20

// FromLog rebuilds, from a controller's log, the explanation of every policy that was in force at a moment (a zero at means the end of the log).
// Lines that are not transitions are passed over, so a log of several replicas, or with a prefix before each line, will do.
func FromLog(r io.Reader, at time.Time) ([]Explanation, error) {
	newest := map[string]Explanation{}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLogLine)
	for lines.Scan() {
		e, ok := fromLine(lines.Bytes())
		if !ok || !at.IsZero() && e.At.After(at) {
			continue
		}
		if old, seen := newest[e.Policy]; !seen || !e.At.Before(old.At) {
			newest[e.Policy] = e
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return slices.SortedFunc(maps.Values(newest), func(a, b Explanation) int { return cmp.Compare(a.Policy, b.Policy) }), nil
}

func fromLine(line []byte) (Explanation, bool) {
	start := bytes.IndexByte(line, '{') // some log tools put the pod's name in front
	if start < 0 || !bytes.Contains(line, []byte(`"explanation"`)) {
		return Explanation{}, false
	}
	var entry struct {
		Explanation Explanation `json:"explanation"`
	}
	if err := json.Unmarshal(line[start:], &entry); err != nil || entry.Explanation.Policy == "" {
		return Explanation{}, false
	}
	return entry.Explanation, true
}
