package promquery

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
)

// section is a set of namespaces that is read with one query while the shared query is divided.
type section struct {
	namespaces []string // sorted
	merged     bool     // true if it was merged from sections that succeeded separately
	ok         bool     // true if its last query succeeded
	waited     int      // number of rounds since its last query
	series     int      // number of series in its last usable response
	bytes      int64
	took       time.Duration // duration of its last query
	limit      Limit         // the limit that its only namespace exceeded
	cause      error         // error of its query in this round; nil: it succeeded
	failures   int
	retryAt    int // round from which its namespace, which exceeds a limit, is queried again
}

// pieces divides a section that failed. Each namespace with more series than the parameter share becomes a separate section. If there is
// no such namespace, pieces divides the section into two halves.
func (s *section) pieces(series map[string]int, share int) []*section {
	rest := &section{failures: s.failures + 1}
	var out []*section
	for _, n := range s.namespaces {
		if series[n] > share {
			out = append(out, &section{namespaces: []string{n}, failures: s.failures + 1})
		} else {
			rest.namespaces = append(rest.namespaces, n)
		}
	}
	if len(out) == 0 {
		return s.halves()
	}
	if len(rest.namespaces) > 0 {
		out = append([]*section{rest}, out...)
	}
	return out
}

func (s *section) halves() []*section {
	middle := len(s.namespaces) / 2
	return []*section{
		{namespaces: slices.Clone(s.namespaces[:middle])},
		{namespaces: slices.Clone(s.namespaces[middle:])},
	}
}

// merge combines sections that succeeded, if the combined section is small and quick: its series and its bytes must be at most four fifths
// of the limits of one response, and its duration must not exceed the parameter quick.
func merge(sections []*section, l promapi.Limits, quick time.Duration) (out []*section) {
	var open *section
	for _, s := range sections {
		if s.cause != nil {
			out = append(out, s)
			continue
		}
		if open != nil && (open.series+s.series)*5 <= l.Series*4 && (open.bytes+s.bytes)*5 <= l.Bytes*4 && open.took+s.took <= quick {
			open.took += s.took
			open.namespaces = slices.Sorted(slices.Values(append(open.namespaces, s.namespaces...)))
			open.series, open.bytes, open.merged = open.series+s.series, open.bytes+s.bytes, true
			continue
		}
		open = s
		out = append(out, s)
	}
	return out
}

// queryOrder returns the sections in the order in which they are queried:
//
//   - First small and quick sections whose last query succeeded, so that their namespaces always have a reading. A section is small if
//     its last response had at most an eighth of the series and bytes in the parameter share.
//   - Then sections whose last query succeeded but that are large or slow, alternating with sections that failed.
//
// Within each of these three kinds, the section that was not queried for the largest number of rounds is first.
func queryOrder(sections []*section, share promapi.Limits, quick time.Duration) []*section {
	var small, large, failed []*section
	for _, s := range sections {
		switch {
		case !s.ok:
			failed = append(failed, s)
		case s.series*8 <= share.Series && s.bytes*8 <= share.Bytes && s.took <= quick:
			small = append(small, s)
		default:
			large = append(large, s)
		}
	}
	for _, kind := range [][]*section{small, large, failed} {
		slices.SortStableFunc(kind, func(a, b *section) int {
			return cmp.Or(cmp.Compare(b.waited, a.waited), cmp.Compare(a.failures, b.failures), cmp.Compare(a.series, b.series))
		})
	}
	for i := range max(len(large), len(failed)) {
		if i < len(large) {
			small = append(small, large[i])
		}
		if i < len(failed) {
			small = append(small, failed[i])
		}
	}
	return small
}

// align adapts the sections to the current namespaces, which the parameter namespaces contains in sorted order. It removes all other
// namespaces from the sections. If some current namespaces are in no section, it adds one section with them.
func align(sections []*section, namespaces []string) []*section {
	have := map[string]bool{}
	for _, s := range sections {
		s.namespaces = slices.DeleteFunc(s.namespaces, func(n string) bool {
			_, is := slices.BinarySearch(namespaces, n)
			have[n] = is
			return !is
		})
	}
	sections = slices.DeleteFunc(sections, func(s *section) bool { return len(s.namespaces) == 0 })
	added := &section{}
	for _, n := range namespaces {
		if !have[n] {
			added.namespaces = append(added.namespaces, n)
		}
	}
	if len(added.namespaces) > 0 {
		sections = append(sections, added)
	}
	return sections
}
