package history

import "math"

// Append appends the encoded window to the slice words: the number of entries, and then two words for each entry.
func (w *Window) Append(words []int64) []int64 {
	words = append(words, int64(w.n))
	for _, e := range w.list[:w.n] {
		words = append(words, e.at, Pair(e.late, e.value))
	}
	return words
}

// Read decodes the result of Append.
func (w *Window) Read(r *Reader) {
	words := r.Take(2 * r.Count(windowSize))
	w.n = int8(len(words) / 2)
	for i := range w.n {
		late, value := Halves(words[2*i+1])
		w.list[i] = sample{at: words[2*i], value: value, late: late}
	}
}

// Append appends the encoded steps to the slice words: the number of steps, and then two words for each step.
func (s *Steps) Append(words []int64) []int64 {
	words = append(words, int64(s.n))
	for _, e := range s.list[:s.n] {
		words = append(words, e.Start, Pair(e.Low, e.High))
	}
	return words
}

// Read decodes the result of Append.
func (s *Steps) Read(r *Reader) {
	words := r.Take(2 * r.Count(stepsSize))
	s.n = int8(len(words) / 2)
	for i := range s.n {
		low, high := Halves(words[2*i+1])
		s.list[i] = Step{Start: words[2*i], Low: low, High: high}
	}
}

// Append appends the encoded trend to the slice words, as two words. It does not encode Known, because callers encode only trends with
// values.
func (r Trend) Append(words []int64) []int64 { return append(words, word(r.Fast), word(r.Slow)) }

// Read decodes the result of Append and sets Known.
func (r *Trend) Read(from *Reader) {
	if words := from.Take(2); len(words) == 2 {
		*r = Trend{true, number(words[0]), number(words[1])}
	}
}

// Append appends the encoded forecast to the slice words, as three words. It does not encode Known, because callers encode only forecasts
// with history.
func (f Forecast) Append(words []int64) []int64 {
	return append(words, word(f.Level), word(f.Mean), word(f.Spread))
}

// Read decodes the result of Append and sets Known.
func (f *Forecast) Read(r *Reader) {
	if words := r.Take(3); len(words) == 3 {
		*f = Forecast{true, number(words[0]), number(words[1]), number(words[2])}
	}
}

// Reader reads encoded values. Its methods return no error. Instead, they set Invalid if they read beyond the end, or if the encoded length
// of a list is negative or too great.
type Reader struct {
	Words   []int64 // words that were not read so far
	Invalid bool
}

// Next returns the next word, or 0 if there is none.
func (r *Reader) Next() int64 {
	if len(r.Words) == 0 {
		r.Invalid = true
		return 0
	}
	v := r.Words[0]
	r.Words = r.Words[1:]
	return v
}

// Take returns the next n words, or nil if there are fewer than n. The slice shares memory with Words.
func (r *Reader) Take(n int) []int64 {
	if n > len(r.Words) {
		r.Invalid, r.Words = true, nil
		return nil
	}
	words := r.Words[:n]
	r.Words = r.Words[n:]
	return words
}

// Count returns the next word, which is the length of a list. If the word is negative or greater than the parameter most, Count sets
// Invalid and returns 0.
func (r *Reader) Count(most int) int {
	n := r.Next()
	if n < 0 || n > int64(most) {
		r.Invalid = true
		return 0
	}
	return int(n)
}

// Pair encodes two numbers in one word. Halves decodes it.
func Pair(a, b int32) int64 { return int64(a)<<32 | int64(uint32(b)) }

// Halves returns the two numbers that Pair has encoded.
func Halves(v int64) (a, b int32) { return int32(v >> 32), int32(v) }

func word(v float64) int64   { return int64(math.Float64bits(v)) }
func number(v int64) float64 { return math.Float64frombits(uint64(v)) }
