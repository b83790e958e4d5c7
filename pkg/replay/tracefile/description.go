package tracefile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/timestamp"
)

// description is the content of a trace.yaml: the path of a trace file and the options for reading it.
//
//	apiVersion: gpuscaler.io/v1alpha1
//	kind: Trace
//	file: requests.csv.gz            # relative to this file
//	columns: {time: ts, outputTokens: usage.completion_tokens}
//	timezone: Europe/Berlin
//	tokens: {input: {mean: 1200, sigma: 1}, output: {mean: 250, sigma: 0.7}}
type description struct {
	APIVersion   string              `yaml:"apiVersion"`
	Kind         string              `yaml:"kind"`
	File         string              `yaml:"file"`
	Format       Format              `yaml:"format"`
	Columns      Columns             `yaml:"columns"`
	Where        map[string]string   `yaml:"where"`
	TimeUnit     timestamp.Unit      `yaml:"timeUnit"`
	TimeLayout   string              `yaml:"timeLayout"`
	ServiceUnit  timestamp.Unit      `yaml:"serviceUnit"`
	Timezone     string              `yaml:"timezone"`
	MaxBackwards span                `yaml:"maxBackwards"`
	DropFailed   bool                `yaml:"dropFailed"`
	Unit         RateUnit            `yaml:"unit"`
	Gaps         Gaps                `yaml:"gaps"`
	Window       span                `yaml:"window"`
	CV           float64             `yaml:"cv"`
	Family       reproducible.Family `yaml:"family"`
	From         span                `yaml:"from"`
	To           span                `yaml:"to"`
	Duration     span                `yaml:"duration"`
	Scale        float64             `yaml:"scale"`
	Seed         uint64              `yaml:"seed"`
	Tokens       *trace.Tokens       `yaml:"tokens"`
	MaxRequests  int                 `yaml:"maxRequests"`
}

// span is a duration in YAML: a string such as "90m", as in a policy, or an integer number of seconds.
type span time.Duration

func (s *span) UnmarshalYAML(n *yaml.Node) error {
	if seconds, err := strconv.ParseInt(n.Value, 10, 32); err == nil {
		*s = span(time.Duration(seconds) * time.Second)
		return nil
	}
	d, err := time.ParseDuration(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: duration %s is neither like 90m nor a number of seconds", n.Line, input.Quote(n.Value))
	}
	*s = span(d)
	return nil
}

const (
	apiVersion     = "gpuscaler.io/v1alpha1"
	maxDescription = 64 << 10
)

// openDescription reads a trace.yaml and opens the trace file in its field `file`. Options that the caller sets have priority over options
// in the trace.yaml.
func openDescription(path string, o Options) (*trace.Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, refused := parseDescription(input.Place{File: path}, f)
	if refused != nil {
		return nil, refused
	}
	if o, refused = d.under(input.Place{File: path}, o); refused != nil {
		return nil, refused
	}
	data := d.File
	if !filepath.IsAbs(data) {
		data = filepath.Join(filepath.Dir(path), data)
	}
	in, err := os.Open(data)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return Read(data, in, o)
}

func parseDescription(p input.Place, r io.Reader) (description, *trace.Error) {
	var d description
	raw, err := io.ReadAll(io.LimitReader(r, maxDescription+1))
	if err != nil {
		return d, p.Failed(err, "a readable file")
	}
	if len(raw) > maxDescription {
		return d, p.Refuse("more than 64 KiB", "a short description of a trace; the trace itself is CSV or JSON")
	}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&d); err != nil {
		p.Line = yamlLine(err)
		return d, p.Failed(err, "a trace.yaml: apiVersion, kind: Trace, file, and the options of the reader")
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return d, p.Refuse("a second document", "one document: one trace")
	}
	switch {
	case d.APIVersion != apiVersion:
		return d, p.Refuse("apiVersion "+input.Quote(d.APIVersion), apiVersion)
	case d.Kind != "Trace":
		return d, p.Refuse("kind "+input.Quote(d.Kind), "Trace")
	case d.File == "":
		return d, p.Refuse("no file", "file: the trace, relative to this file")
	}
	return d, nil
}

var lineInError = regexp.MustCompile(`line (\d+)`)

// yamlLine returns the line number in an error message of the YAML library.
func yamlLine(err error) int {
	if m := lineInError.FindStringSubmatch(err.Error()); m != nil {
		n, _ := strconv.Atoi(m[1]) // 0 if the number does not fit in an int
		return n
	}
	return 0
}

// under returns o, with each option that is not set replaced by the value in the description.
func (d description) under(p input.Place, o Options) (Options, *trace.Error) {
	if o.Location == nil && d.Timezone != "" {
		location, err := time.LoadLocation(d.Timezone)
		if err != nil {
			return o, p.Failed(err, "a zone name of the IANA database, like Europe/Berlin")
		}
		o.Location = location
	}
	o.Format = cmp.Or(o.Format, d.Format)
	o.Columns = o.Columns.over(d.Columns)
	if o.Where == nil {
		o.Where = d.Where
	}
	o.TimeUnit, o.TimeLayout = cmp.Or(o.TimeUnit, d.TimeUnit), cmp.Or(o.TimeLayout, d.TimeLayout)
	o.ServiceUnit = cmp.Or(o.ServiceUnit, d.ServiceUnit)
	o.MaxBackwards = cmp.Or(o.MaxBackwards, time.Duration(d.MaxBackwards))
	o.DropFailed = o.DropFailed || d.DropFailed
	o.Unit, o.Gaps, o.Family = cmp.Or(o.Unit, d.Unit), cmp.Or(o.Gaps, d.Gaps), cmp.Or(o.Family, d.Family)
	o.Window, o.Duration = cmp.Or(o.Window, time.Duration(d.Window)), cmp.Or(o.Duration, time.Duration(d.Duration))
	o.From, o.To = cmp.Or(o.From, time.Duration(d.From)), cmp.Or(o.To, time.Duration(d.To))
	o.CV, o.Scale, o.Seed = cmp.Or(o.CV, d.CV), cmp.Or(o.Scale, d.Scale), cmp.Or(o.Seed, d.Seed)
	o.MaxRequests = cmp.Or(o.MaxRequests, d.MaxRequests)
	if o.Tokens == nil {
		o.Tokens = d.Tokens
	}
	return o, nil
}
