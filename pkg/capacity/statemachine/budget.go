package statemachine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

const (
	// ReasonEmpty is Karpenter's reason for the disruption of a node without pods.
	ReasonEmpty = "Empty"
	// ReasonDrifted is Karpenter's reason for the disruption of a node that differs from its NodePool or NodeClass.
	ReasonDrifted = "Drifted"
	// ReasonUnderutilized is Karpenter's reason for the disruption of a node whose pods fit elsewhere.
	ReasonUnderutilized = "Underutilized"

	// maxBudgets is the maximum length of the list of budgets that Karpenter's CRD allows.
	maxBudgets = 50
	// defaultBudgets is the value that Karpenter's CRD sets if the list of budgets is absent. The freeze adds its entries to this list. If
	// the list contained only the entries of the freeze, disruption would be unlimited after the freeze.
	defaultBudgets = `[{"nodes":"10%"}]`
)

// With returns the owner's list of budgets followed by the entries of the freeze. ok is false if the list cannot be parsed, or if it has no
// space for two more entries.
func (h Freeze) With(list nodepool.Value) (v nodepool.Value, ok bool) {
	if list == "" {
		list = defaultBudgets
	}
	var entries []json.RawMessage
	if json.Unmarshal([]byte(list), &entries) != nil || len(entries) > maxBudgets-2 {
		return "", false
	}
	if h.Empty > h.Start {
		entries = append(entries, h.entry(ReasonEmpty, h.Empty))
	}
	if h.InUse > h.Start {
		entries = append(entries, h.entry(ReasonUnderutilized, h.InUse))
	}
	return joinBudgets(entries), true
}

// entry returns a budget of 0 nodes for one disruption reason, from the start of the freeze until end. Its cron expression contains a day
// and a month. If gpuscaler crashes, the entry has no effect after its end until the same day of the next year, and gpuscaler removes it at
// its next start.
func (h Freeze) entry(reason string, end int64) json.RawMessage {
	t := Instant(h.Start)
	return json.RawMessage(fmt.Sprintf(`{"duration":"%dm","nodes":"0","reasons":["%s"],"schedule":"%d %d %d %d *"}`,
		(end-h.Start)/time.Minute.Milliseconds(), reason, t.Minute(), t.Hour(), t.Day(), int(t.Month())))
}

func joinBudgets(entries []json.RawMessage) nodepool.Value {
	var b strings.Builder
	for i, e := range entries {
		b.WriteByte("[,"[min(i, 1)])
		b.Write(e)
	}
	if len(entries) == 0 {
		b.WriteByte('[')
	}
	b.WriteByte(']')
	return nodepool.Value(b.String())
}

// WithoutFreeze returns a list of budgets without the entries of a freeze. found reports whether the list had such entries.
func WithoutFreeze(list nodepool.Value) (v nodepool.Value, found bool) {
	if !strings.Contains(string(list), `m","nodes":"0","reasons":["`) {
		return list, false
	}
	var entries []json.RawMessage
	if json.Unmarshal([]byte(list), &entries) != nil {
		return list, false
	}
	kept := slices.DeleteFunc(slices.Clone(entries), func(e json.RawMessage) bool { return isFreezeEntry(string(e)) })
	if len(kept) == len(entries) {
		return list, false
	}
	return joinBudgets(kept), true
}

// isFreezeEntry reports whether an entry has exactly the form that the method entry writes. Such an entry is regarded as written by
// gpuscaler, because an owner has no reason to write a budget that applies to only one day of the year.
func isFreezeEntry(entry string) bool {
	var minutes, minute, hour, day, month int
	for _, reason := range []string{ReasonEmpty, ReasonUnderutilized} {
		format := `{"duration":"%dm","nodes":"0","reasons":["` + reason + `"],"schedule":"%d %d %d %d *"}`
		if n, err := fmt.Sscanf(entry, format, &minutes, &minute, &hour, &day, &month); err == nil && n == 5 {
			return true
		}
	}
	return false
}

// BlocksDisruption reports whether a list of budgets always forbids the disruption of nodes for the given reason. Entries with a schedule
// are ignored, because they do not apply all the time.
func BlocksDisruption(list nodepool.Value, reason string) bool {
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
		zero := e.Nodes != "" && strings.Trim(strings.TrimSuffix(e.Nodes, "%"), "0") == ""
		if zero && e.Schedule == nil && (e.Reasons == nil || slices.Contains(e.Reasons, reason)) {
			return true
		}
	}
	return false
}

// HasFreeze reports whether a list of budgets has entries of a freeze.
func HasFreeze(list nodepool.Value) bool {
	_, found := WithoutFreeze(list)
	return found
}
