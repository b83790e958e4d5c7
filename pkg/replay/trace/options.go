package trace

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Format says what a file holds.
type Format string

const (
	AutoFormat Format = "" // by content, never by the file's name
	CSV        Format = "csv"
	JSONLines  Format = "jsonl"
	RateCSV    Format = "rates"
	Prometheus Format = "prometheus"
)

// RateUnit is the unit of a windowed or recorded rate.
type RateUnit string

const (
	PerSecond RateUnit = "perSecond" // the default
	PerMinute RateUnit = "perMinute"
	PerWindow RateUnit = "perWindow" // a count: increase(x[1m]) at a step of a minute
)

// Gaps says what a hole in a rate means. Unknown is not zero: the default holds
// a hole of up to five minutes (Prometheus' own staleness) at the rate before
// it, with a note, and refuses a longer one.
type Gaps string

const (
	RefuseGaps Gaps = ""
	HoldGaps   Gaps = "hold" // the rate before the hole
	ZeroGaps   Gaps = "zero" // no traffic: a counter that exists only while there is some
)

// Columns names where things stand: a header or a JSON key, dotted for nested
// keys ("usage.prompt_tokens"), or "#2" for the second column. Empty means by
// the usual names; see columns.go for the list.
type Columns struct {
	Time         string `yaml:"time"`
	InputTokens  string `yaml:"inputTokens"`
	OutputTokens string `yaml:"outputTokens"`
	Status       string `yaml:"status"`
	Rate         string `yaml:"rate"`
	CV           string `yaml:"cv"`
	Family       string `yaml:"family"`
}

// Options says how to read a trace. The zero value reads every file that
// explains itself.
type Options struct {
	Format  Format
	Columns Columns
	Where   map[string]string // keep only rows whose column has this value; the first key is a column as in Columns

	TimeUnit     TimeUnit       // of numeric timestamps
	TimeLayout   string         // Go layout of timestamps in a style of their own: "02/Jan/2006:15:04:05 -0700"
	Location     *time.Location // of timestamps without a zone; nil is UTC
	MaxBackwards time.Duration  // rows at most this far behind a row above them are sorted in; 0 means DefaultMaxBackwards
	DropFailed   bool           // drop rows that failed, or that (in a log without a status) have 0 output tokens

	Unit   RateUnit
	Gaps   Gaps
	Window time.Duration // length of a window where a file has a single one
	CV     float64       // of the time between arrivals where the file names none; 0 means 1 (Poisson)
	Family Family        // where the file names none; "" means Gamma

	From, To    time.Duration // the slice of the trace to keep, from its start; To 0 means to the end
	Duration    time.Duration // at least this long, though the last request came earlier
	Scale       float64       // multiplies rates; thins a log, seeded, and is then at most 1; 0 means 1
	Seed        uint64        // of everything drawn
	Tokens      *Tokens       // drawn for requests whose counts are unknown; nil leaves them unknown
	MaxRequests int           // a log with more is refused; 0 means DefaultMaxRequests
}

const (
	// DefaultMaxRequests fills 640 MB.
	DefaultMaxRequests = 20_000_000
	// DefaultMaxBackwards covers logs written when a request ends rather than
	// when it begins; the hour that a local clock repeats in autumn is beyond it.
	DefaultMaxBackwards = 15 * time.Minute
	// MaxDuration bounds a trace: a longer one has a wrong timestamp in it.
	MaxDuration = 400 * 24 * time.Hour

	heldGap      = 5 * time.Minute
	maxRate      = 1e6         // requests/s of one client; more is a wrong unit
	maxPerWindow = 5_000_000   // arrivals of one client in one window, 40 MB while it is drawn
	maxTokens    = 100_000_000 // a hundred times the longest context window there is
	maxWindows   = 20_000_000
)

// withDefaults checks the options; file stands in the message.
func (o Options) withDefaults(file string) (Options, error) {
	if o.Location == nil {
		o.Location = time.UTC
	}
	o.MaxBackwards = cmp.Or(o.MaxBackwards, DefaultMaxBackwards)
	o.MaxRequests = cmp.Or(o.MaxRequests, DefaultMaxRequests)
	o.CV, o.Scale = cmp.Or(o.CV, 1), cmp.Or(o.Scale, 1)
	o.Unit, o.Family = cmp.Or(o.Unit, PerSecond), cmp.Or(o.Family, Gamma)
	if allowed := o.wrong(); allowed != "" {
		return o, &Error{File: file, Found: "an option out of range", Allowed: allowed}
	}
	return o, nil
}

// wrong names what is allowed where an option is not.
func (o Options) wrong() string {
	_, unit := perUnit[o.TimeUnit]
	switch {
	case !slices.Contains([]Format{AutoFormat, CSV, JSONLines, RateCSV, Prometheus}, o.Format):
		return "format csv, jsonl, rates or prometheus"
	case o.TimeUnit != AutoUnit && !unit:
		return "timeUnit s, ms, us or ns"
	case !slices.Contains([]RateUnit{PerSecond, PerMinute, PerWindow}, o.Unit):
		return "unit perSecond, perMinute or perWindow"
	case !slices.Contains([]Gaps{RefuseGaps, HoldGaps, ZeroGaps}, o.Gaps):
		return "gaps hold or zero"
	case !slices.Contains([]Family{Gamma, Weibull}, o.Family):
		return "family Gamma or Weibull"
	case !(o.CV >= minCV && o.CV <= maxCV):
		return "cv 0.001 to 1000"
	case !(o.Scale > 0 && o.Scale <= 1e6):
		return "scale above 0, to 1e6"
	case o.From < 0 || o.To < 0 || o.To != 0 && o.To <= o.From || o.To > MaxDuration:
		return "from at least 0 and below to, to at most 400 days"
	case o.Window < 0 || o.Duration < 0 || o.Duration > MaxDuration || o.MaxBackwards < 0 || o.MaxRequests < 0:
		return "window, duration, maxBackwards and maxRequests at least 0, duration at most 400 days"
	}
	return o.Tokens.wrong()
}

// end is where the slice ends.
func (o Options) end() time.Duration {
	if o.To == 0 {
		return math.MaxInt64
	}
	return o.To
}

// Tokens draws token counts for requests that have none on record.
type Tokens struct {
	Input  TokenDist `yaml:"input"`
	Output TokenDist `yaml:"output"`
}

// TokenDist is a log-normal distribution of token counts, the usual model of
// prompt and answer lengths, cut to 1..Max. Mean is that before the cut.
type TokenDist struct {
	Mean  float64 `yaml:"mean"`  // tokens, at least 1
	Sigma float64 `yaml:"sigma"` // deviation of the logarithm; 0 draws Mean every time
	Max   int     `yaml:"max"`   // 0 means 131072
}

const defaultMaxTokens = 131072

func (t *Tokens) wrong() string {
	if t == nil || t.Input.valid() && t.Output.valid() {
		return ""
	}
	return "tokens with mean 1 to 1e8, sigma 0 to 5, max 0 to 1e8"
}

func (d TokenDist) valid() bool {
	return d.Mean >= 1 && d.Mean <= maxTokens && d.Sigma >= 0 && d.Sigma <= 5 && d.Max >= 0 && d.Max <= maxTokens
}

func (d TokenDist) draw(s *source) int {
	x := d.Mean
	if d.Sigma > 0 {
		// The mean of a log-normal is exp(mu + sigma^2/2).
		x = exp(ln(d.Mean) - mul(0.5, mul(d.Sigma, d.Sigma)) + mul(d.Sigma, s.normal()))
	}
	most := float64(cmp.Or(d.Max, defaultMaxTokens))
	return int(math.Floor(min(max(x, 1), most) + 0.5))
}

// fill draws what the request lacks.
func (t *Tokens) fill(r *Request, s *source) {
	if t == nil {
		return
	}
	if r.InputTokens == UnknownTokens {
		r.InputTokens = t.Input.draw(s)
	}
	if r.OutputTokens == UnknownTokens {
		r.OutputTokens = t.Output.draw(s)
	}
}
