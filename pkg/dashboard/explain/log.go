package explain

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

// maxLogLine is the maximum length of a log line in bytes. The explanation of a policy with the maximum number of signals and schedules has
// about 6 KB.
const maxLogLine = 1 << 20

// FromLog reads a controller's log and returns, for each policy, the explanation that applied at the given time, sorted by policy. If the
// time is zero, it returns the last explanation of each policy in the log. It ignores lines without an explanation. The log may contain the
// lines of more than one replica of gpuscaler, and each line may have a prefix.
func FromLog(r io.Reader, at time.Time) ([]Explanation, error) {
	newest := map[string]Explanation{}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLogLine)
	for lines.Scan() {
		e, ok := fromLine(lines.Bytes())
		if !ok || !at.IsZero() && e.At.After(at) {
			continue
		}
		if old, found := newest[e.Policy]; !found || !e.At.Before(old.At) {
			newest[e.Policy] = e
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return slices.SortedFunc(maps.Values(newest), func(a, b Explanation) int { return cmp.Compare(a.Policy, b.Policy) }), nil
}

func fromLine(line []byte) (Explanation, bool) {
	start := bytes.IndexByte(line, '{') // some log tools write the pod's name before the JSON
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
