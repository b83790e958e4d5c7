package objective

import (
	"strconv"
	"time"
)

// levels is the number of exponential moving averages of the load. Each has a different time constant (levelSeconds).
const levels = 4

var levelSeconds = [levels]float64{30, 120, 600, 3600}

// A level is the load that a rule expects. These levels are not moving averages.
const (
	seasonal = levels // the mean of ten minutes, multiplied by the rise of the load that is usual at this time of the day
	// the mean of half a minute, plus the rise within one cold start if the load continues to rise as in the last two minutes
	trend     = levels + 1
	allLevels = levels + 2
)

// holds is the number of elements of holdSeconds.
const holds = 5

// holdSeconds contains the lengths, in seconds, of the past times of which a rule uses the greatest load. The first value, 0, means four
// cold starts.
var holdSeconds = [holds]float64{0, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600}

// rule computes a load from the features of the past load: a level plus a margin, and at least a share of a past peak. A ladder is a
// sequence of rules with the same level and hold, and with increasing margins or increasing shares. Each rule of a ladder is more cautious
// than the rule before it.
type rule struct {
	level  int     // index of levelSeconds, seasonal or trend
	margin float64 // number of standard deviations of the load above the level
	hold   int     // index of holdSeconds: the past time whose greatest need is used
	share  float64 // share of the greatest need (features.needed) in that past time; 0: not used
	first  bool    // the rule is the first of its ladder
}

// numRules is the number of rules. The encoding of a model depends on it, so a change needs a new encodingVersion.
const numRules = 64

var rules = makeRules()

func makeRules() (out [numRules]rule) {
	n := 0
	add := func(r rule) {
		r.first = n == 0 || out[n-1].level != r.level || out[n-1].hold != r.hold || (out[n-1].share > 0) != (r.share > 0)
		out[n] = r
		n++
	}
	for level, margins := range [allLevels][]float64{{0, 0.5, 1, 2, 4}, {0, 1, 2, 4}, {0.5, 1, 2, 3, 4.5}, {0, 0.5, 1, 1.5, 2, 2.5, 3, 4},
		{0.5, 1, 2, 3}, {0, 1, 2, 4}} {
		for _, margin := range margins {
			add(rule{level: level, margin: margin})
		}
	}
	for hold, shares := range [holds][]float64{{0.7, 0.85, 1, 1.2}, {0.5, 0.7, 0.85, 1, 1.15}, {0.4, 0.6, 0.8, 0.9, 1, 1.1},
		{0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2}, {0.5, 0.7, 0.85, 1, 1.1, 1.25}} {
		for _, share := range shares {
			add(rule{level: 1, margin: 0.5, hold: hold, share: share})
		}
	}
	return out
}

// isIn reports whether the set kinds contains a kind to which the rule belongs.
func (r *rule) isIn(kinds Rules) bool {
	return kinds&TrendRules != 0 && r.level == trend || kinds&SeasonRules != 0 && r.level == seasonal ||
		kinds&PeakRules != 0 && r.share > 0 || kinds&HourRules != 0 && r.level == levels-1
}

// appendText appends a description of the rule.
func (r *rule) appendText(dst []byte) []byte {
	switch r.level {
	case seasonal:
		dst = append(dst, "load as usual at this time of the day"...)
	case trend:
		dst = append(dst, "load if it continues to rise"...)
	default:
		dst = append(append(dst, "mean load of "...), (time.Duration(levelSeconds[r.level]) * time.Second).String()...)
	}
	dst = append(strconv.AppendFloat(append(dst, " + "...), r.margin, 'g', 3, 64), " deviations"...)
	if r.share > 0 {
		dst = append(strconv.AppendFloat(append(dst, ", at least "...), 100*r.share, 'g', 3, 64), "% of the peak of "...)
		if r.hold == 0 {
			return append(dst, "four cold starts"...)
		}
		dst = append(dst, (time.Duration(holdSeconds[r.hold]) * time.Second).String()...)
	}
	return dst
}
