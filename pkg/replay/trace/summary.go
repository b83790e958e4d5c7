package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"time"
)

// Summary describes a trace, so that a user can check it before use.
//
// The bins of a log and of a generated trace are minutes. The bins of a trace of rates are the windows of the file, with the expected
// requests of all clients; no arrivals are drawn, so the totals do not depend on a seed. To see the gaps between the requests of a
// trace of rates, summarize the result of Drawn, which draws the arrivals.
type Summary struct {
	Name     string        `json:"name"`
	Kind     Kind          `json:"kind"`
	Start    time.Time     `json:"start,omitzero"`
	Duration time.Duration `json:"durationNanos"`
	Requests int           `json:"requests"`
	Clients  int           `json:"clients,omitempty"` // number of clients of a trace of rates

	Bin  time.Duration `json:"binNanos"`
	Bins []float64     `json:"bins"` // requests in each bin
	RPM  Quantiles     `json:"requestsPerMinute"`
	// length of the last bin if it is shorter than the others, so that its count is not comparable; otherwise 0
	Partial time.Duration `json:"lastBinNanos,omitempty"`

	ZeroBins    int           `json:"zeroBins"`
	LongestGap  time.Duration `json:"longestGapNanos"` // longest time without a request, including the start and the end
	Over5m      int           `json:"gapsOver5m"`
	Over10m     int           `json:"gapsOver10m"`
	Over10mFrac float64       `json:"gapTimeOver10mFraction"` // share of the duration in gaps above 10 minutes

	Input   TokenSummary `json:"inputTokens"`
	Output  TokenSummary `json:"outputTokens"`
	Service TimeSummary  `json:"serviceSeconds"`
	Columns []string     `json:"columns,omitempty"`
	Notes   []string     `json:"notes,omitempty"`
}

// Quantiles are quantiles of the rate over all bins, in requests/min.
type Quantiles struct {
	Min      float64 `json:"min"`
	MinWhole float64 `json:"minWholeBin"` // minimum without the last bin, if that is shorter than the others
	P50      float64 `json:"p50"`
	P95      float64 `json:"p95"`
	Max      float64 `json:"max"`
	Mean     float64 `json:"mean"` // number of requests / duration
}

// TokenSummary describes the requests with known token counts.
type TokenSummary struct {
	Known int     `json:"known"`
	Zero  int     `json:"zero"`
	Mean  float64 `json:"mean"`
	P50   int     `json:"p50"`
	P95   int     `json:"p95"`
	Max   int     `json:"max"`
}

// TimeSummary describes the requests with a known service time, in seconds.
type TimeSummary struct {
	Known int     `json:"known"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	Max   float64 `json:"max"`
}

// Summarize returns the summary of a trace. It uses 4 bytes of memory for each known token count, 8 bytes for each known service time, and
// 8 bytes for each bin.
func Summarize(t *Trace) Summary {
	s := Summary{Name: t.Name, Kind: t.Kind, Start: t.Start, Duration: t.Duration, Clients: len(t.clients), Columns: t.Columns, Notes: t.Notes}
	if t.Kind == Rates {
		s.countWindows(t.Windows())
	} else {
		s.countRequests(t)
	}
	s.rates()
	return s
}

func (s *Summary) countRequests(t *Trace) {
	s.Bin = time.Minute
	var input, output tokenCounts
	var service []time.Duration
	last := time.Duration(0)
	bins := make([]float64, int(t.Duration/s.Bin)+1)
	for r := range t.All() {
		s.Requests++
		s.gap(r.At - last)
		last = r.At
		bins[min(int(r.At/s.Bin), len(bins)-1)]++
		input.add(r.InputTokens)
		output.add(r.OutputTokens)
		if r.Service > 0 {
			service = append(service, r.Service)
		}
	}
	s.gap(t.Duration - last)
	n := len(bins)
	s.Partial = t.Duration % s.Bin
	if n > 1 && s.Partial == 0 && bins[n-1] == 0 {
		// The last bin is only for a request exactly at the end. Without such a request it is removed, so that a day has 1440 bins of a minute.
		bins = bins[:n-1]
	}
	s.Bins = bins
	s.Input, s.Output, s.Service = input.summary(), output.summary(), summaryOf(service)
	s.fractions()
}

func (s *Summary) countWindows(windows []Window) {
	total, idle := 0.0, time.Duration(0)
	for i, w := range windows {
		s.Bins = append(s.Bins, w.Requests)
		total += w.Requests
		if i == 0 {
			s.Bin = w.Length
		}
		if w.Length < s.Bin {
			s.Partial = w.Length
		}
		if w.Requests > 0 {
			s.gap(idle)
			idle = 0
			continue
		}
		idle += w.Length
	}
	s.gap(idle)
	s.Requests = int(math.Round(total))
	s.fractions()
}

// gap records a time without requests: it updates LongestGap, the counts of gaps and Over10mFrac. Until the function fractions is called,
// Over10mFrac is a sum in seconds.
func (s *Summary) gap(d time.Duration) {
	s.LongestGap = max(s.LongestGap, d)
	if d > 5*time.Minute {
		s.Over5m++
	}
	if d > 10*time.Minute {
		s.Over10m++
		s.Over10mFrac += d.Seconds()
	}
}

func (s *Summary) fractions() {
	if s.Duration > 0 {
		s.Over10mFrac /= s.Duration.Seconds()
	}
}

func (s *Summary) rates() {
	sorted := make([]float64, len(s.Bins))
	for i, n := range s.Bins {
		sorted[i] = n / s.Bin.Minutes()
		if n == 0 {
			s.ZeroBins++
		}
	}
	whole := sorted
	if s.Partial > 0 && len(sorted) > 1 {
		whole = sorted[:len(sorted)-1]
	}
	s.RPM.MinWhole = slices.Min(whole)
	slices.Sort(sorted)
	s.RPM.Min, s.RPM.Max = sorted[0], sorted[len(sorted)-1]
	s.RPM.P50, s.RPM.P95 = median(sorted), quantile(sorted, 0.95)
	if s.Duration > 0 {
		s.RPM.Mean = float64(s.Requests) / s.Duration.Minutes()
	}
}

// quantile returns the q-quantile of sorted values: the value at index q*n, without interpolation.
func quantile[T any](sorted []T, q float64) T {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// median returns the middle value, or the mean of the two middle values.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// BinsSHA256 returns the SHA-256 of the bins joined by commas, in hexadecimal. Another program can compare this value with its own hash to
// check that both programs read the same requests from a trace.
func (s Summary) BinsSHA256() string {
	var joined []byte
	for i, n := range s.Bins {
		if i > 0 {
			joined = append(joined, ',')
		}
		joined = strconv.AppendFloat(joined, n, 'f', -1, 64)
	}
	sum := sha256.Sum256(joined)
	return hex.EncodeToString(sum[:])
}

// tokenCounts stores every known token count, for the quantiles.
type tokenCounts struct {
	all []int32 // the counts, each at most MaxTokens
	sum int
}

func (c *tokenCounts) add(n int) {
	if n == UnknownTokens {
		return
	}
	c.all = append(c.all, int32(n))
	c.sum += n
}

func (c *tokenCounts) summary() TokenSummary {
	n := len(c.all)
	if n == 0 {
		return TokenSummary{}
	}
	slices.Sort(c.all)
	zero, _ := slices.BinarySearch(c.all, 1)
	return TokenSummary{Known: n, Zero: zero, Mean: float64(c.sum) / float64(n),
		P50: int(quantile(c.all, 0.5)), P95: int(quantile(c.all, 0.95)), Max: int(c.all[n-1])}
}

// summaryOf returns the summary of the known service times, which it sorts.
func summaryOf(all []time.Duration) TimeSummary {
	if len(all) == 0 {
		return TimeSummary{}
	}
	slices.Sort(all)
	sum := 0.0
	for _, d := range all {
		sum += d.Seconds()
	}
	return TimeSummary{Known: len(all), Mean: sum / float64(len(all)), P50: quantile(all, 0.5).Seconds(), P95: quantile(all, 0.95).Seconds(),
		Max: all[len(all)-1].Seconds()}
}
