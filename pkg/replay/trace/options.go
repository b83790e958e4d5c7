package trace

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
)

// Format is the format of a file.
type Format string

// Values of Format.
const (
	AutoFormat Format = "" // the format is detected from the content
	CSV        Format = "csv"
	JSONLines  Format = "jsonl"
	RateCSV    Format = "rates"
	Prometheus Format = "prometheus"
)

// RateUnit is the unit of a rate.
type RateUnit string

// Values of RateUnit.
const (
	PerSecond RateUnit = "perSecond" // the default
	PerMinute RateUnit = "perMinute"
	PerWindow RateUnit = "perWindow" // the value is a number of requests: for example increase(x[1m]) at a step of a minute
)

// Gaps sets the rate to use in a gap between two windows. By default, a gap of up to five minutes (as long as Prometheus uses an old
// sample) gets the rate before it and a note in the trace, and a longer gap is an error.
type Gaps string

// Values of Gaps.
const (
	RefuseGaps Gaps = ""
	HoldGaps   Gaps = "hold" // the rate before the gap
	ZeroGaps   Gaps = "zero" // no traffic, for counters that exist only with traffic
)

// Columns has the column for each field: a header, a JSON key ("usage.prompt_tokens" is the key of a nested value), or "#2" for the second
// column. If a name is empty, the usual names of that field in columns.go are tried.
type Columns struct {
	Time         string `yaml:"time"`
	InputTokens  string `yaml:"inputTokens"`
	OutputTokens string `yaml:"outputTokens"`
	Status       string `yaml:"status"`
	Service      string `yaml:"service"` // time that a replica spends on the request; request logs only
	Rate         string `yaml:"rate"`
	CV           string `yaml:"cv"`
	Family       string `yaml:"family"`
}

// Options configure how a trace is read. The zero value reads files with the usual headers and formats.
type Options struct {
	Format  Format
	Columns Columns
	Where   map[string]string // only rows whose column has this value are used; the key names a column as in Columns

	TimeUnit     TimeUnit       // unit of numeric timestamps
	ServiceUnit  TimeUnit       // unit of numeric service times; AutoUnit: the unit in the header, or seconds
	TimeLayout   string         // Go layout of timestamps in another form: "02/Jan/2006:15:04:05 -0700"
	Location     *time.Location // time zone of timestamps without a zone; nil means UTC
	MaxBackwards time.Duration  // maximum time by which a row may be earlier than a previous row; 0 means DefaultMaxBackwards
	DropFailed   bool           // failed rows are omitted; in a log without a status, rows with 0 output tokens count as failed

	Unit   RateUnit
	Gaps   Gaps
	Window time.Duration       // length of the window, for a file with only one window
	CV     float64             // coefficient of variation of the time between arrivals, if the file has none; 0 means 1 (Poisson)
	Family reproducible.Family // distribution of the time between arrivals, if the file has none; "" means Gamma

	From, To    time.Duration // the part of the trace to use, in time since its start; To 0 means the end
	Duration    time.Duration // minimum duration of the trace
	Scale       float64       // factor on the rates; for a log, the share of the requests that are kept, at most 1; 0 means 1
	Seed        uint64        // seed of all random numbers
	Tokens      *Tokens       // distributions for unknown token counts; nil: these counts stay unknown
	MaxRequests int           // maximum number of requests in a log; 0 means DefaultMaxRequests
}

const (
	// DefaultMaxRequests is the default limit of requests in memory. With 40 bytes each they need 800 MB.
	DefaultMaxRequests = 20_000_000
	// DefaultMaxBackwards is the default of Options.MaxBackwards. It is long enough for logs in which each row is written at the end of its
	// request. It is shorter than the hour that a local clock repeats at the end of daylight saving time, so that such a log is rejected.
	DefaultMaxBackwards = 15 * time.Minute
	// MaxDuration is the maximum length of a trace. A longer trace is rejected, because it probably has a wrong timestamp or a wrong time
	// unit.
	MaxDuration = 400 * 24 * time.Hour

	heldGap      = 5 * time.Minute
	maxRate      = 1e6         // maximum requests per second of one client; a higher rate probably has a wrong unit
	maxPerWindow = 5_000_000   // maximum arrivals of one client in one window; they need 40 MB
	maxTokens    = 100_000_000 // maximum tokens of a request: a hundred times the longest context window
	maxWindows   = 20_000_000
)

// withDefaults returns the options with defaults, or an *Error for the first invalid option. file is the file name in the error.
func (o Options) withDefaults(file string) (Options, error) {
	if o.Location == nil {
		o.Location = time.UTC
	}
	o.MaxBackwards = cmp.Or(o.MaxBackwards, DefaultMaxBackwards)
	o.MaxRequests = cmp.Or(o.MaxRequests, DefaultMaxRequests)
	o.CV, o.Scale = cmp.Or(o.CV, 1), cmp.Or(o.Scale, 1)
	o.Unit, o.Family = cmp.Or(o.Unit, PerSecond), cmp.Or(o.Family, reproducible.Gamma)
	if allowed := o.wrong(); allowed != "" {
		return o, &Error{File: file, Found: "an option out of range", Allowed: allowed}
	}
	return o, nil
}

// wrong returns the allowed values of the first invalid option, or "".
func (o Options) wrong() string {
	return cmp.Or(o.unknownName(), o.outOfRange(), o.Tokens.wrong())
}

// unknownName returns the allowed names of the first option with an unknown one, or "".
func (o Options) unknownName() string {
	_, unit := perUnit[o.TimeUnit]
	_, serviceUnit := perUnit[o.ServiceUnit]
	switch {
	case !slices.Contains([]Format{AutoFormat, CSV, JSONLines, RateCSV, Prometheus}, o.Format):
		return "format csv, jsonl, rates or prometheus"
	case o.TimeUnit != AutoUnit && !unit:
		return "timeUnit s, ms, us or ns"
	case o.ServiceUnit != AutoUnit && !serviceUnit:
		return "serviceUnit s, ms, us or ns"
	case !slices.Contains([]RateUnit{PerSecond, PerMinute, PerWindow}, o.Unit):
		return "unit perSecond, perMinute or perWindow"
	case !slices.Contains([]Gaps{RefuseGaps, HoldGaps, ZeroGaps}, o.Gaps):
		return "gaps hold or zero"
	case !o.Family.Known():
		return "family Gamma or Weibull"
	}
	return ""
}

// outOfRange returns the allowed range of the first number that is outside it, or "".
func (o Options) outOfRange() string {
	switch {
	case !(o.CV >= reproducible.MinCV && o.CV <= reproducible.MaxCV):
		return "cv 0.001 to 1000"
	case !(o.Scale > 0 && o.Scale <= 1e6):
		return "scale above 0, to 1e6"
	case o.From < 0 || o.To < 0 || o.To != 0 && o.To <= o.From || o.To > MaxDuration:
		return "from at least 0 and below to, to at most 400 days"
	case o.Window < 0 || o.Duration < 0 || o.Duration > MaxDuration || o.MaxBackwards < 0 || o.MaxRequests < 0:
		return "window, duration, maxBackwards and maxRequests at least 0, duration at most 400 days"
	}
	return ""
}

// end returns the end of the selected part of the trace (From..To): To, or a time after the end of any trace if To is 0.
func (o Options) end() time.Duration {
	if o.To == 0 {
		return math.MaxInt64
	}
	return o.To
}

// Tokens are distributions of token counts for requests without recorded counts.
type Tokens struct {
	Input  TokenDist `yaml:"input"`
	Output TokenDist `yaml:"output"`
}

// TokenDist is a log-normal distribution of token counts, limited to 1..Max. Mean is the mean before the limit.
type TokenDist struct {
	Mean  float64 `yaml:"mean"`  // mean number of tokens, at least 1
	Sigma float64 `yaml:"sigma"` // standard deviation of the logarithm; 0 means that every count is Mean
	Max   int     `yaml:"max"`   // maximum number of tokens; 0 means 131072
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

func (d TokenDist) draw(s *reproducible.Draws) int {
	x := d.Mean
	if d.Sigma > 0 {
		x = s.LogNormalWithMean(d.Mean, d.Sigma)
	}
	most := float64(cmp.Or(d.Max, defaultMaxTokens))
	return int(math.Floor(min(max(x, 1), most) + 0.5))
}

// fill sets each unknown token count of a request to a random count from t. A nil t changes nothing.
func (t *Tokens) fill(r *Request, s *reproducible.Draws) {
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
