package history

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

var nine = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// Ten thousand keys that change every ten minutes fill the log within half an hour. The number of entries stays bounded, every key keeps
// its newest entries, and Begins returns the first time for which At finds an entry.
func TestLogOfTenThousandBusyKeysIsBounded(t *testing.T) {
	const keys = 10_000
	var l Log[int, string]
	if _, ok := l.Begins(1); ok {
		t.Error("Begins found a key without an entry")
	}
	last := nine
	for round := range 6 {
		last = nine.Add(time.Duration(round) * 10 * time.Minute)
		for k := range keys {
			l.Add(k, last, "changed")
		}
	}
	stored := 0
	for _, list := range l.byKey {
		stored += len(list)
	}
	if l.total > maxTotal || l.total != stored {
		t.Errorf("%d entries of which %d are counted, want at most %d", stored, l.total, maxTotal)
	}
	for _, k := range []int{0, keys / 2, keys - 1} {
		first, ok := l.Begins(k)
		if !ok || !first.After(nine) {
			t.Errorf("key %d: the log begins at %s, %t: the entries of an hour exceed the maximum", k, first, ok)
		}
		if _, ok := l.At(k, first.Add(-time.Second)); ok {
			t.Errorf("key %d: At returned an entry before the first entry", k)
		}
		for _, at := range []time.Time{first, last} {
			if _, ok := l.At(k, at); !ok {
				t.Errorf("key %d: no entry at %s", k, at)
			}
		}
	}
}

// With more keys than maxTotal, every key keeps its previous entry after a change of all keys, and the number of entries stays bounded
// although the keys continue to change.
func TestLogOfMoreKeysThanItsTotalKeepsPreviousEntries(t *testing.T) {
	const keys = maxTotal + 6000
	var l Log[int, string]
	for k := range keys {
		l.Add(k, nine, "first")
	}
	const busy, changes = 100, 80 // 100*80 = 8,000 more entries; the log allows maxTotal/2 = 12,000 besides one entry of each key
	for round := range changes {
		for k := range busy {
			l.Add(k, nine.Add(time.Duration(round+1)*time.Minute), "busy")
		}
	}
	for k := range busy {
		if got := len(l.Between(k, nine, nine.Add(24*time.Hour))); got != changes+1 {
			t.Fatalf("key %d has %d entries, want %d", k, got, changes+1)
		}
	}
	for round := range 3 {
		for k := range keys {
			l.Add(k, nine.Add(time.Duration(3+round)*time.Hour), "all")
		}
	}
	if l.total > keys+maxTotal/2 {
		t.Errorf("%d entries of %d keys", l.total, keys)
	}
	if _, ok := l.At(0, nine.Add(5*time.Hour)); !ok {
		t.Error("the newest entry was deleted")
	}
}

// A key that changes every second has at most maxPerKey entries and does not displace the only entry of another key. Five thousand keys
// together have at most maxTotal entries.
func TestBusyKeyDoesNotDisplaceOtherKeys(t *testing.T) {
	var l Log[string, int]
	l.Add("calm", nine, 0)
	for i := range 100_000 {
		l.Add("busy", nine.Add(time.Duration(i)*time.Second), i)
	}
	if n := len(l.byKey["busy"]); n > maxPerKey {
		t.Errorf("%d entries of one key, want at most %d", n, maxPerKey)
	}
	if _, ok := l.At("calm", nine.Add(23*time.Hour)); !ok {
		t.Error("the only entry of the calm key was deleted")
	}
	for i := range 2 * maxTotal {
		l.Add(fmt.Sprint(i%5000), nine.Add(time.Duration(i)*time.Second), i)
	}
	if l.total > maxTotal {
		t.Errorf("%d entries in all, want at most %d", l.total, maxTotal)
	}
}

// Log.total equals the number of stored entries, and every method that reads the log releases its lock.
func TestLogCountsItsEntries(t *testing.T) {
	var l Log[string, int]
	check := func(when string) {
		t.Helper()
		stored := 0
		for _, list := range l.byKey {
			stored += len(list)
		}
		if l.total != stored {
			t.Errorf("%s: the log has %d entries and counts %d", when, stored, l.total)
		}
	}
	at := nine
	for i := range 3 * maxPerKey {
		for _, k := range []string{"a", "b", "c"} {
			l.Add(k, at, i)
		}
		if i%100 == 0 {
			at = at.Add(30 * time.Minute)
		}
		at = at.Add(time.Second)
	}
	check("full lists")
	l.Forget(at.Add(26*time.Hour), func(k string) bool { return k == "b" })
	check("after two keys were removed")
	if len(l.byKey) != 1 {
		t.Errorf("%d keys are left, want 1", len(l.byKey))
	}
	l.Begins("b")
	l.Begins("a")
	l.At("b", at)
	l.Between("b", nine, at)
	l.Walk("b", func(Entry[int]) bool { return false })
	added := make(chan struct{})
	go func() {
		defer close(added)
		l.Add("b", at, 0)
	}()
	select {
	case <-added:
	case <-time.After(time.Minute):
		t.Fatal("a method that reads the log did not release its lock")
	}
	check("after the reads")
}

// The log has the changes of the last 24 hours and the change before them, which describes the start of these hours. A key has at most
// maxPerKey entries.
func TestLogKeepsTheChangeBeforeTheLastDay(t *testing.T) {
	var l Log[string, int]
	hours := func() (out []int) {
		for _, e := range l.Between("gpu", time.Time{}, nine.Add(1000*time.Hour)) {
			out = append(out, int(e.At.Sub(nine).Hours()))
		}
		return out
	}
	for _, step := range []struct {
		hour int
		want []int
	}{{0, []int{0}}, {1, []int{0, 1}}, {2, []int{0, 1, 2}}, {25, []int{0, 1, 2, 25}}, {26, []int{1, 2, 25, 26}}, {27, []int{2, 25, 26, 27}},
		{300, []int{27, 300}}} {
		if l.Add("gpu", nine.Add(time.Duration(step.hour)*time.Hour), 0); !slices.Equal(hours(), step.want) {
			t.Errorf("after a change in hour %d: %v, want %v", step.hour, hours(), step.want)
		}
	}
	for i := range maxPerKey + 2 {
		l.Add("gpu", nine.Add(400*time.Hour+time.Duration(i)*time.Second), i)
	}
	all := l.Between("gpu", time.Time{}, nine.Add(1000*time.Hour))
	if n, first := len(all), all[0].At.Sub(nine)-400*time.Hour; n != maxPerKey || first != 2*time.Second {
		t.Errorf("%d changes from %v, want %d from 2s", n, first, maxPerKey)
	}
}

// The clock is set back by days after the last deletion of old entries. The entries of removed keys must still be deleted.
func TestRemovedKeysAreForgottenAfterAClockStepBack(t *testing.T) {
	var l Log[string, int]
	none := func(string) bool { return false }
	l.Forget(nine.AddDate(0, 0, 9), none)
	l.Add("job", nine, 1)
	l.Forget(nine.Add(26*time.Hour), none)
	if len(l.byKey) != 0 {
		t.Error("an entry that is older than 24 hours is kept")
	}
}
