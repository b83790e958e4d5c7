package objective

import "math"

// buckets is the number of parts into which a span of time is divided. Old values are removed one part at a time, so a value can be kept
// for up to an eighth of the span too long.
const buckets = 8

// division divides a span of time slots into buckets. It returns the number of time slots in a bucket and the number of buckets. Their
// product is as near to the span as possible.
func division(span int) (length, count int) {
	length = max((span+buckets-1)/buckets, 1)
	return length, max((span+length/2)/length, 1)
}

// peak contains the greatest value of each bucket of a span of time. The method value returns the greatest value of the whole span.
type peak struct {
	Bucket [buckets]float32
	At     uint8  // index of the bucket to which the current time slot belongs
	Filled uint32 // number of time slots in the current bucket so far
}

// add adds the value of one time slot and removes values that are older than span time slots.
func (p *peak) add(v float64, span int) {
	length, count := division(span)
	if p.Filled++; int(p.Filled) > length {
		p.At, p.Filled = (p.At+1)%uint8(count), 1
		p.Bucket[p.At] = 0
	}
	for i := count; i < buckets; i++ {
		p.Bucket[i] = 0
	}
	p.Bucket[p.At%buckets] = max(p.Bucket[p.At%buckets], float32(v))
}

func (p *peak) value() float64 {
	best := p.Bucket[0]
	for _, b := range p.Bucket[1:] {
		best = max(best, b)
	}
	return float64(best)
}

// slotsLeft returns the number of time slots after which the greatest value is older than span time slots and is removed.
func (p *peak) slotsLeft(span int) int {
	length, count := division(span)
	best := 0
	for i := range count {
		if p.Bucket[i] >= p.Bucket[best] {
			best = i
		}
	}
	age := (int(p.At) + count - best) % count
	return max((count-age)*length-int(p.Filled), 0)
}

// ringSlots is the number of last time slots whose work is stored.
const ringSlots = 64

// seasonBins is the number of parts of a day. For each part, the mean load is stored.
const seasonBins = 96

const binSeconds = 86400 / seasonBins

// features contains what was measured about the load, in work per second. The exported fields are saved with the model.
type features struct {
	Ring  [ringSlots]float32 // work that arrived in each of the last time slots; Head is the index of the newest
	Head  uint8
	Slots int64
	Need  float64
	Level [levels]float64
	// mean of (Need - Level)² / Level, where a Need below Level counts as Level. It measures how much the load varies.
	Square [levels]float64
	Recent [levels]peak // greatest value of each Level within the last cold start
	Trend  peak
	Hold   [holds]peak // greatest Need (see needed) within each of the time spans in holdSeconds

	Season [seasonBins]float32 // mean load of each time of the day
	Days   [seasonBins]uint8   // number of days of which each mean in Season is computed
	BinSum float64
	BinN   int32
	Bin    int32
	Gap    float64 // mean length of past times without work, in seconds
	Idle   float64 // seconds since the last work
}

// signals contains the values of features in one time slot from which the rules compute replicas.
type signals struct {
	level, noise [allLevels]float64
	hold         [holds]float64
	usual        float64 // greatest usual load of the current and the next quarter of an hour; 0: unknown
}

// add adds the work of one time slot. second is the time of the slot in seconds since 1970.
func (f *features) add(work float64, x *plant, second int64) {
	f.Head = (f.Head + 1) % ringSlots
	f.Ring[f.Head] = float32(work)
	f.Slots++
	rate := work / x.slot
	f.Need = f.needed(x)
	for j := range f.Level {
		w := x.slot / (x.slot + levelSeconds[j])
		if n := float64(f.Slots); n*x.slot < levelSeconds[j] {
			w = 1 / n // while the history is short, all time slots have the same weight
		}
		f.Level[j] += float64(w * (rate - f.Level[j]))
		above := max(f.Need-f.Level[j], 0)
		w = max(x.slot/squareSeconds, 1/float64(f.Slots))
		f.Square[j] += float64(w * (float64(above*above)/max(f.Level[j], 1e-9) - f.Square[j]))
		f.Recent[j].add(f.Level[j], x.cold)
	}
	rise := float64(max(f.Level[0]-f.Level[1], 0) * min(float64(x.cold)*x.slot/(levelSeconds[1]-levelSeconds[0]), 4))
	f.Trend.add(f.Level[0]+rise, x.cold)
	f.Hold[0].add(f.Need, 4*x.cold)
	for h := 1; h < holds; h++ {
		f.Hold[h].add(f.Need, int(holdSeconds[h]/x.slot))
	}
	f.season(rate, second)
	if work > 0 {
		if f.Idle > 60 {
			if f.Gap == 0 {
				f.Gap = f.Idle
			}
			f.Gap += float64(0.1 * (f.Idle - f.Gap))
		}
		f.Idle = 0
	} else {
		f.Idle += x.slot
	}
}

// squareSeconds is the time over which Square is averaged, in seconds. It is long, so that a single burst hardly changes the average.
const squareSeconds = 6 * 3600

// needed returns the smallest capacity that would have served the work of the last time slots within the allowed wait. For each span of
// time that ends now, this is work / (length + wait). needed returns the maximum over all spans.
func (f *features) needed(x *plant) float64 {
	sum, best := 0.0, 0.0
	for n := range ringSlots {
		sum += float64(f.Ring[(int(f.Head)+ringSlots-n)%ringSlots])
		best = max(best, sum/float64(n+1+x.wait))
	}
	return best / x.slot
}

// work returns the work that arrived in the last n time slots.
func (f *features) work(n int) (sum float64) {
	for i := range min(n, ringSlots) {
		sum += float64(f.Ring[(int(f.Head)+ringSlots-i)%ringSlots])
	}
	return sum
}

// young returns the work that arrived so recently that it is not late yet, even if it still waits.
func (f *features) young(x *plant) float64 {
	if x.requests {
		// A request arrives within its time slot, so half of the requests of the oldest time slot have waited longer than the limit.
		return (f.work(x.wait+1) + f.work(x.wait)) / 2
	}
	return f.work(x.wait + 1)
}

// surgeSlots is the number of time slots before the last cold start with which surge compares the load. With half and with a quarter of
// this value, the results of the benchmark (make bench-decisions, family bursty) are the same.
const surgeSlots = 32

// surgeFactor is the least factor by which the load must increase to count as a surge. With twice this value, the results of the benchmark
// (make bench-decisions, family bursty) are the same. With half of it, random variations of a steady load count as surges. For an SLO of
// 99.9%, the model then keeps a replica in the first hour without work, although it observed no surge.
const surgeFactor = 2

// surge returns by how much the mean load of the last cold start exceeds the mean load before it, in work per second. It returns 0 if the
// load did not increase by surgeFactor, because a smaller increase can be a random variation. If a cold start is longer than the stored
// time slots, surge uses the stored part.
func (f *features) surge(x *plant) float64 {
	n := min(x.cold, ringSlots-surgeSlots)
	if f.Slots < int64(n+surgeSlots) {
		return 0
	}
	sum := f.work(n)
	last, before := sum/float64(n), (f.work(n+surgeSlots)-sum)/surgeSlots
	if last < surgeFactor*before {
		return 0
	}
	return (last - before) / x.slot
}

// season adds a load, in work per second, to the mean load of the current time of the day.
func (f *features) season(rate float64, second int64) {
	bin := int32(second / binSeconds % seasonBins)
	if bin != f.Bin && f.BinN > 0 {
		mean, weight := float32(f.BinSum/float64(f.BinN)), float32(0.25)
		if surgeFactor*mean < f.Season[f.Bin] {
			weight /= 2 // the usual load after a weekend is still mainly the load of the other days
		}
		f.Season[f.Bin] += float32((mean - f.Season[f.Bin]) * max(weight, 1/float32(f.Days[f.Bin]+1)))
		f.Days[f.Bin] = min(f.Days[f.Bin]+1, 250)
		f.BinSum, f.BinN = 0, 0
	}
	f.Bin = bin
	f.BinSum += rate
	f.BinN++
}

// rise returns the factor by which the load usually increases within the next two cold starts, according to previous days. The factor is
// the greatest usual load in this time divided by the usual load now, limited to the range 1 to 3.
func (f *features) rise(x *plant, second int64) float64 {
	now, best := f.usual(second), 1.0
	if now <= 0 {
		return 1
	}
	ahead := int64(float64(x.cold) * x.slot)
	for _, u := range [3]int64{ahead, ahead + ahead/2, 2 * ahead} {
		best = max(best, f.usual(second+u)/now)
	}
	return min(best, 3)
}

// usual returns the mean load at a time of the day, interpolated between two parts of the day. It returns 0 if the load at this time is
// unknown.
func (f *features) usual(second int64) float64 {
	at := float64(second%86400)/binSeconds - 0.5 + seasonBins
	i := int(at)
	a, b := i%seasonBins, (i+1)%seasonBins
	if f.Days[a] == 0 || f.Days[b] == 0 {
		return 0
	}
	w := at - float64(i)
	return float64(float64(f.Season[a])*(1-w)) + float64(float64(f.Season[b])*w)
}

// signals returns the values from which the rules compute replicas in the current time slot.
func (f *features) signals(x *plant, second int64) (s signals) {
	for j := range levels {
		s.level[j] = f.Recent[j].value()
		s.noise[j] = math.Sqrt(f.Square[j] * s.level[j])
	}
	s.level[seasonal] = f.Level[2] * f.rise(x, second)
	s.noise[seasonal] = math.Sqrt(f.Square[2] * s.level[seasonal])
	s.level[trend] = f.Trend.value()
	s.noise[trend] = math.Sqrt(f.Square[0] * s.level[trend])
	for h := range f.Hold {
		s.hold[h] = f.Hold[h].value()
	}
	s.usual = max(f.usual(second), f.usual(second+binSeconds)) // the load of today is already a part of the first value
	return s
}

// want returns the loads that a rule proposes to serve: the expected load, the margin above it, and a share of a past peak.
func (s *signals) want(r *rule) (level, margin, hold float64) {
	return s.level[r.level], float64(r.margin * s.noise[r.level]), float64(r.share * s.hold[r.hold])
}
