package capacity

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	reasonEmpty         = "Empty"
	reasonUnderutilized = "Underutilized"

	// maxBudgets is the bound of the CRD on the length of the list.
	maxBudgets = 50
	// defaultBudgets is the default of Karpenter's CRD. An absent list must not become a list of the freeze's entries alone, which
	// would allow everything outside them.
	defaultBudgets = `[{"nodes":"10%"}]`
)

// with returns the owner's list with the entries of the freeze behind it. ok is false for a list that cannot be read or is full.
func (h freeze) with(list Value) (v Value, ok bool) {
	if list == "" {
		list = defaultBudgets
	}
	var entries []json.RawMessage
	if json.Unmarshal([]byte(list), &entries) != nil || len(entries) > maxBudgets-2 {
		return "", false
	}
	if h.Empty > h.Start {
		entries = append(entries, h.entry(reasonEmpty, h.Empty))
	}
	if h.InUse > h.Start {
		entries = append(entries, h.entry(reasonUnderutilized, h.InUse))
	}
	return joinBudgets(entries), true
}

// entry returns a budget of 0 nodes from the start of the freeze to an end. Its cron expression names a day of a month: after a crash,
// the entry has no effect for a year, and the next start of gpuscaler removes it.
func (h freeze) entry(reason string, end int64) json.RawMessage {
	t := instant(h.Start)
	return json.RawMessage(fmt.Sprintf(`{"duration":"%dm","nodes":"0","reasons":["%s"],"schedule":"%d %d %d %d *"}`,
		(end-h.Start)/time.Minute.Milliseconds(), reason, t.Minute(), t.Hour(), t.Day(), int(t.Month())))
}

func joinBudgets(entries []json.RawMessage) Value {
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

// withoutFreeze returns a list of budgets without the entries of a freeze. found reports whether it had any.
func withoutFreeze(list Value) (v Value, found bool) {
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

// isFreezeEntry recognizes an entry of a freeze by its complete form. An owner has no reason to write a budget for one day of a year.
func isFreezeEntry(entry string) bool {
	var minutes, minute, hour, day, month int
	for _, reason := range []string{reasonEmpty, reasonUnderutilized} {
		format := `{"duration":"%dm","nodes":"0","reasons":["` + reason + `"],"schedule":"%d %d %d %d *"}`
		if n, err := fmt.Sscanf(entry, format, &minutes, &minute, &hour, &day, &month); err == nil && n == 5 {
			return true
		}
	}
	return false
}

// blocksDisruption reports whether a list of budgets never allows the removal of a node for a reason. Entries with a schedule do not
// count.
func blocksDisruption(list Value, reason string) bool {
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
