package tracefile

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/timestamp"
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

// Gaps sets the rate to use in a gap between two windows. By default, a gap of up to five minutes has the rate of the window before the
// gap, and the trace has a note about it. Five minutes is how long Prometheus uses an old sample. By default, a longer gap is an error.
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
	Where   map[string]string // column and value; a row is used only if all these columns have their values; names are as in Columns

	TimeUnit     timestamp.Unit // unit of numeric timestamps
	ServiceUnit  timestamp.Unit // unit of numeric service times; timestamp.Auto: the unit in the header, or seconds
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
	Tokens      *trace.Tokens // distributions for unknown token counts; nil: these counts stay unknown
	MaxRequests int           // maximum number of requests in a log; 0 means trace.DefaultMaxRequests
}

const (
	// DefaultMaxBackwards is the default of Options.MaxBackwards. It is long enough for logs in which each row is written at the end of its
	// request. It is shorter than the hour that a local clock repeats at the end of daylight saving time, so that such a log is rejected.
	DefaultMaxBackwards = 15 * time.Minute

	heldGap      = 5 * time.Minute
	maxPerWindow = 5_000_000 // maximum arrivals of one client in one window; they need 40 MB
)

// withDefaults returns the options with defaults, or a *trace.Error for the first invalid option. file is the file name in the error.
func (o Options) withDefaults(file string) (Options, error) {
	if o.Location == nil {
		o.Location = time.UTC
	}
	o.MaxBackwards = cmp.Or(o.MaxBackwards, DefaultMaxBackwards)
	o.MaxRequests = cmp.Or(o.MaxRequests, trace.DefaultMaxRequests)
	o.CV, o.Scale = cmp.Or(o.CV, 1), cmp.Or(o.Scale, 1)
	o.Unit, o.Family = cmp.Or(o.Unit, PerSecond), cmp.Or(o.Family, reproducible.Gamma)
	if allowed := o.wrong(); allowed != "" {
		return o, &trace.Error{File: file, Found: "an option out of range", Allowed: allowed}
	}
	return o, nil
}

// wrong returns the allowed values of the first invalid option, or "".
func (o Options) wrong() string {
	allowed := cmp.Or(o.unknownName(), o.outOfRange())
	if allowed == "" && !o.Tokens.Valid() {
		allowed = trace.AllowedTokens
	}
	return allowed
}

// unknownName returns the allowed names of the first option with an unknown name, or "".
func (o Options) unknownName() string {
	switch {
	case !slices.Contains([]Format{AutoFormat, CSV, JSONLines, RateCSV, Prometheus}, o.Format):
		return "format csv, jsonl, rates or prometheus"
	case o.TimeUnit != timestamp.Auto && o.TimeUnit.Nanoseconds() == 0:
		return "timeUnit s, ms, us or ns"
	case o.ServiceUnit != timestamp.Auto && o.ServiceUnit.Nanoseconds() == 0:
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

// outOfRange returns the allowed range of the first option whose value is out of its range, or "".
func (o Options) outOfRange() string {
	switch {
	case !(o.CV >= reproducible.MinCV && o.CV <= reproducible.MaxCV):
		return "cv 0.001 to 1000"
	case !(o.Scale > 0 && o.Scale <= 1e6):
		return "scale above 0, to 1e6"
	case o.From < 0 || o.To < 0 || o.To != 0 && o.To <= o.From || o.To > trace.MaxDuration:
		return "from at least 0 and below to, to at most 400 days"
	case o.Window < 0 || o.Duration < 0 || o.Duration > trace.MaxDuration || o.MaxBackwards < 0 || o.MaxRequests < 0:
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
