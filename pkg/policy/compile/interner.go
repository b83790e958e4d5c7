package compile

import (
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/formula"
	"github.com/gpuscaler/gpuscaler/pkg/policy/schedule"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Interner shares values between compiled policies, so that thousands of similar policies need little time and memory. It caches the
// comparison of two time windows, which takes milliseconds, and compiled formulas, which take almost a millisecond each. It stores equal
// lists, and equal texts such as Europe/Berlin, only once.
type Interner struct {
	pairs    map[[2]calendar.Window]time.Time
	formulas map[string]scaling.Formula
	words    map[string]string

	// Lists that are often equal in many policies, because the policies are generated from one template. The lists do not contain the name of
	// the policy, so policies that differ only in their name can share them.
	signals   lists[scaling.Signal]
	sources   lists[policy.Source]
	schedules lists[scaling.Schedule]
	rates     lists[scaling.RatePolicy]
	polls     lists[time.Duration]
}

const (
	// maxEntries is the maximum number of entries of each map. A full map is cleared before the next entry is added.
	maxEntries = 1 << 14
	// maxLists is the maximum number of lists of each type. It is lower than maxEntries, because a stored list uses memory even after the
	// policies that used it are removed.
	maxLists = 1 << 12
)

// NewInterner returns an empty Interner.
func NewInterner() *Interner {
	return &Interner{
		pairs: map[[2]calendar.Window]time.Time{}, formulas: map[string]scaling.Formula{}, words: map[string]string{},
		signals: lists[scaling.Signal]{}, sources: lists[policy.Source]{}, schedules: lists[scaling.Schedule]{},
		rates: lists[scaling.RatePolicy]{}, polls: lists[time.Duration]{},
	}
}

// lists stores lists, so that equal lists share memory. The key is a hash of the elements.
type lists[T comparable] map[uint64][]T

var hashSeed = maphash.MakeSeed()

// canonical returns the stored list with the same elements. If no stored list is equal, it stores a copy of the list and returns the copy.
// The caller must not change the result.
func (l lists[T]) canonical(list []T) []T {
	if len(list) == 0 {
		return nil
	}
	var h maphash.Hash
	h.SetSeed(hashSeed)
	for i := range list {
		maphash.WriteComparable(&h, list[i])
	}
	key := h.Sum64()
	if known, ok := l[key]; ok && slices.Equal(known, list) {
		return known
	}
	if len(l) >= maxLists {
		clear(l)
	}
	l[key] = slices.Clone(list)
	return l[key]
}

func cache[K comparable, V any](m map[K]V, key K, value V) V {
	if len(m) >= maxEntries {
		clear(m)
	}
	m[key] = value
	return value
}

// overlap returns the result of schedule.FirstOverlap, from the cache if possible.
func (s *Interner) overlap(a, b *calendar.Window, most int) (time.Time, bool) {
	key := [2]calendar.Window{*a, *b}
	key[0].Name, key[1].Name = "", ""
	at, known := s.pairs[key]
	if !known {
		first, _ := schedule.FirstOverlap(a, b, most)
		at = cache(s.pairs, key, first)
	}
	return at, !at.IsZero()
}

// formula returns the result of formula.Compile, from the cache if possible. It does not cache errors, because they are rare and depend on
// the policy.
func (s *Interner) formula(text string, signals []scaling.Signal) (scaling.Formula, error) {
	var key strings.Builder
	for i := range signals {
		key.WriteString(signals[i].Name + " ")
	}
	key.WriteString(text)
	if f, known := s.formulas[key.String()]; known {
		return f, nil
	}
	f, err := formula.Compile(text, signals)
	if err != nil {
		return nil, err
	}
	return cache(s.formulas, key.String(), f), nil
}

// canonicalText returns the stored copy of a text, so that equal texts share memory. It returns texts of more than 64 bytes unchanged,
// because they are rarely repeated.
func (s *Interner) canonicalText(text string) string {
	if len(text) > 64 {
		return text
	}
	if known, ok := s.words[text]; ok {
		return known
	}
	return cache(s.words, text, strings.Clone(text))
}

// intern replaces the texts and lists of a compiled policy with the shared copies.
func (s *Interner) intern(c *policy.Compiled) {
	w := &c.Workload
	for _, text := range []*string{&w.Key.Namespace, &w.Target.APIVersion, &w.Target.Kind, &w.Group, &c.Team} {
		*text = s.canonicalText(*text)
	}
	if w.Target.Name == w.Key.Name {
		w.Target.Name = w.Key.Name
	}
	for i := range w.Policy.Signals {
		signal, source := &w.Policy.Signals[i], &c.Sources[i]
		for _, text := range []*string{&signal.Name, &signal.Type, &source.DataSource, &source.QueryName, &source.Query, &source.WorkloadLabel,
			&source.NamespaceLabel, &source.Metric, &source.Trigger} {
			*text = s.canonicalText(*text)
		}
		source.Type = policy.SourceType(s.canonicalText(string(source.Type)))
	}
	for i := range w.Policy.Schedules {
		w.Policy.Schedules[i].Window.Name = s.canonicalText(w.Policy.Schedules[i].Window.Name)
	}
	p := w.Policy
	p.Signals, c.Sources, p.Schedules = s.signals.canonical(p.Signals), s.sources.canonical(c.Sources), s.schedules.canonical(p.Schedules)
	c.Polls = s.polls.canonical(c.Polls)
	p.ScaleUp.Rates, p.ScaleDown.Rates = s.rates.canonical(p.ScaleUp.Rates), s.rates.canonical(p.ScaleDown.Rates)
}
