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

// seen remembers what thousands of policies share, so that the second of them costs neither time nor memory: a pair of windows takes
// milliseconds to compare, a formula most of a millisecond to compile, and words such as Europe/Berlin come again and again.
type Interner struct {
	pairs    map[[2]calendar.Window]time.Time
	formulas map[string]scaling.Formula
	words    map[string]string

	// Lists of policies that are written after one template: they differ in their names alone, which are not in here.
	signals   lists[scaling.Signal]
	sources   lists[policy.Source]
	schedules lists[scaling.Schedule]
	rates     lists[scaling.RatePolicy]
}

const (
	// mostSeen bounds each of the memories; beyond it that one starts anew.
	mostSeen = 1 << 14
	// mostLists is fewer, because lists that nobody else has stay in memory for as long as this remembers them.
	mostLists = 1 << 12
)

func NewInterner() *Interner {
	return &Interner{
		pairs: map[[2]calendar.Window]time.Time{}, formulas: map[string]scaling.Formula{}, words: map[string]string{},
		signals: lists[scaling.Signal]{}, sources: lists[policy.Source]{}, schedules: lists[scaling.Schedule]{}, rates: lists[scaling.RatePolicy]{},
	}
}

// lists holds one copy of each list by its hash.
type lists[T comparable] map[uint64][]T

var hashSeed = maphash.MakeSeed()

// one returns the one copy of a list, which nobody writes to from then on.
func (l lists[T]) one(list []T) []T {
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
	if len(l) >= mostLists {
		clear(l)
	}
	l[key] = slices.Clone(list)
	return l[key]
}

func remember[K comparable, V any](m map[K]V, key K, value V) V {
	if len(m) >= mostSeen {
		clear(m)
	}
	m[key] = value
	return value
}

// overlap is firstOverlap.
func (s *Interner) overlap(a, b *calendar.Window, most int) (time.Time, bool) {
	key := [2]calendar.Window{*a, *b}
	key[0].Name, key[1].Name = "", ""
	at, known := s.pairs[key]
	if !known {
		first, _ := schedule.FirstOverlap(a, b, most)
		at = remember(s.pairs, key, first)
	}
	return at, !at.IsZero()
}

// formula is compileFormula. Errors are not kept: they are rare, and their text speaks of one policy.
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
	return remember(s.formulas, key.String(), f), nil
}

// word returns the one copy of a text. What is long is nobody else's.
func (s *Interner) word(text string) string {
	if len(text) > 64 {
		return text
	}
	if known, ok := s.words[text]; ok {
		return known
	}
	return remember(s.words, text, strings.Clone(text))
}

// share lets a compiled policy use the one copy of its words and of its lists.
func (s *Interner) share(c *policy.Compiled) {
	w := &c.Workload
	for _, text := range []*string{&w.Key.Namespace, &w.Target.APIVersion, &w.Target.Kind, &w.Group, &c.Team} {
		*text = s.word(*text)
	}
	if w.Target.Name == w.Key.Name {
		w.Target.Name = w.Key.Name
	}
	for i := range w.Policy.Signals {
		signal, source := &w.Policy.Signals[i], &c.Sources[i]
		for _, text := range []*string{&signal.Name, &signal.Type, &source.DataSource, &source.QueryName, &source.Query, &source.WorkloadLabel,
			&source.NamespaceLabel, &source.Metric, &source.Trigger} {
			*text = s.word(*text)
		}
		source.Type = policy.SourceType(s.word(string(source.Type)))
	}
	for i := range w.Policy.Schedules {
		w.Policy.Schedules[i].Window.Name = s.word(w.Policy.Schedules[i].Window.Name)
	}
	p := w.Policy
	p.Signals, c.Sources, p.Schedules = s.signals.one(p.Signals), s.sources.one(c.Sources), s.schedules.one(p.Schedules)
	p.ScaleUp.Rates, p.ScaleDown.Rates = s.rates.one(p.ScaleUp.Rates), s.rates.one(p.ScaleDown.Rates)
}
