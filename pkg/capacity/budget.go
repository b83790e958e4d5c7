package capacity

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// hold is a pair of budget entries that end by themselves: no node goes for being empty until empty, none for being underutilized
// until under. Drift and repair go on. All are Unix milliseconds on a full minute; the zero hold is none.
type hold struct{ start, empty, under int64 }

const (
	reasonEmpty         = "Empty"
	reasonUnderutilized = "Underutilized"

	// maxBudgets is the CRD's own bound on the list.
	maxBudgets = 50
	// defaultBudgets is what Karpenter's CRD fills in. A list that was absent must not become ours alone: between two of our
	// entries it would allow everything.
	defaultBudgets = `[{"nodes":"10%"}]`
)

// with returns the list with the hold's entries behind those of its owner; ok is false where the list cannot be read or is full.
func (h hold) with(list Value) (v Value, ok bool) {
	if list == "" {
		list = defaultBudgets
	}
	var entries []json.RawMessage
	if json.Unmarshal([]byte(list), &entries) != nil || len(entries) > maxBudgets-2 {
		return "", false
	}
	if h.empty > h.start {
		entries = append(entries, h.entry(reasonEmpty, h.empty))
	}
	if h.under > h.start {
		entries = append(entries, h.entry(reasonUnderutilized, h.under))
	}
	return joined(entries), true
}

// entry is a budget of no nodes from the hold's start to an end. Its cron names a day of a month, so a dead controller's entry
// sleeps for a year, and the next start of a controller removes it.
func (h hold) entry(reason string, end int64) json.RawMessage {
	t := instant(h.start)
	return json.RawMessage(fmt.Sprintf(`{"duration":"%dm","nodes":"0","reasons":["%s"],"schedule":"%d %d %d %d *"}`,
		(end-h.start)/time.Minute.Milliseconds(), reason, t.Minute(), t.Hour(), t.Day(), int(t.Month())))
}

func joined(entries []json.RawMessage) Value {
	var b strings.Builder
	for i, e := range entries {
		b.WriteByte("[,"[min(i, 1)])
		b.Write(e)
	}
	if len(entries) == 0 {
		b.WriteByte('[')
	}
	b.WriteByte(']')
	return Value(b.String())
}

// stripped is a list of budgets without the entries that a hold made; ok tells whether there were any.
func stripped(list Value) (v Value, ok bool) {
	if !strings.Contains(string(list), `m","nodes":"0","reasons":["`) {
		return list, false
	}
	var entries []json.RawMessage
	if json.Unmarshal([]byte(list), &entries) != nil {
		return list, false
	}
	kept := slices.DeleteFunc(slices.Clone(entries), func(e json.RawMessage) bool { return ofHold(string(e)) })
	if len(kept) == len(entries) {
		return list, false
	}
	return joined(kept), true
}

// ofHold recognises an entry by its whole shape: a person who writes budgets has no reason for one that sleeps a year.
func ofHold(entry string) bool {
	var minutes, minute, hour, day, month int
	for _, reason := range []string{reasonEmpty, reasonUnderutilized} {
		format := `{"duration":"%dm","nodes":"0","reasons":["` + reason + `"],"schedule":"%d %d %d %d *"}`
		if n, err := fmt.Sscanf(entry, format, &minutes, &minute, &hour, &day, &month); err == nil && n == 5 {
			return true
		}
	}
	return false
}

// blocks tells whether a list of budgets lets no node go for a reason, at any time: entries with a schedule do not count.
func blocks(list Value, reason string) bool {
	if !strings.Contains(string(list), `"nodes":"0`) {
		return false
	}
	var entries []struct {
		Nodes    string   `json:"nodes"`
		Reasons  []string `json:"reasons"`
		Schedule *string  `json:"schedule"`
	}
	if json.Unmarshal([]byte(list), &entries) != nil {
		return false
	}
	for _, e := range entries {
		if strings.Trim(strings.TrimSuffix(e.Nodes, "%"), "0") == "" && e.Nodes != "" && e.Schedule == nil && (e.Reasons == nil || slices.Contains(e.Reasons, reason)) {
			return true
		}
	}
	return false
}
