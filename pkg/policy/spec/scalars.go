package spec

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Scalar is a type that is written as one YAML scalar with a syntax that YAML does not define, such as 90s or 80%.
type Scalar interface {
	Parse(text string) error // sets the value; the error describes the defect of the text
	Allowed() string         // the syntax in words
	Pattern() string         // the syntax as a regular expression, for editors
}

// errRange is the error for a value that is too low or too high.
var errRange = errors.New("is out of range")

// Names is a list of names. A list with one name may be written as a single name.
type Names []string

// MarshalYAML returns a list with one name as a single name.
func (n Names) MarshalYAML() (any, error) {
	if len(n) == 1 {
		return n[0], nil
	}
	return []string(n), nil
}

// Duration is a length of time: "10m", "1h30m", or a whole number of seconds. It is never negative.
type Duration time.Duration

const maxDuration = 366 * 24 * time.Hour

// Parse sets the value from its text in a document. It implements Scalar.
func (d *Duration) Parse(text string) error {
	parsed, err := parseDuration(text)
	if err != nil {
		return err
	}
	*d = Duration(parsed)
	return nil
}

func parseDuration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		if seconds < 0 || seconds > int64(maxDuration/time.Second) {
			return 0, errRange
		}
		return time.Duration(seconds) * time.Second, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("is not a duration")
	}
	if d < 0 || d > maxDuration {
		return 0, errRange
	}
	return d, nil
}

// Allowed describes the accepted texts in words. It implements Scalar.
func (Duration) Allowed() string {
	return "a duration such as 90s, 10m or 1h30m, or whole seconds, at most a year"
}

// Pattern returns a regular expression that matches every accepted text. It implements Scalar.
func (Duration) Pattern() string { return `^([0-9]+|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$` }

// MarshalYAML returns the shortest form, as String does.
func (d Duration) MarshalYAML() (any, error) { return d.String(), nil }

// String returns the shortest form of the duration, such as 15m, 1h30m or 250ms.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Amount is a target or an activation target: a number, a percentage (80%) or a time (500ms). The unit of a plain number depends on the
// metric and is determined when the signal is compiled.
type Amount struct {
	Text  string
	Value float64 // the value without its unit: 80 for 80% (Percent), 0.5 for 500ms (Seconds)
	Unit  scaling.Unit
}

// Parse sets the value from its text in a document. It implements Scalar.
func (a *Amount) Parse(text string) error {
	number, percent := strings.CutSuffix(text, "%")
	if v, err := strconv.ParseFloat(number, 64); err == nil && IsPlainNumber(number) {
		if math.IsInf(v, 0) || v < 0 || v > 1e12 {
			return errRange
		}
		*a = Amount{Text: text, Value: v}
		if percent {
			a.Unit = scaling.Percent
		}
		return nil
	}
	d, err := parseDuration(text)
	switch {
	case errors.Is(err, errRange):
		return err
	case err != nil:
		return errors.New("is not a number, a percentage or a time")
	}
	*a = Amount{Text: text, Value: d.Seconds(), Unit: scaling.Seconds}
	return nil
}

// IsPlainNumber reports whether s is a decimal number. It returns false for other texts that ParseFloat accepts, such as hexadecimal
// numbers, numbers with underscores, and "nan".
func IsPlainNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789.eE+-") == "" && s[0] != '+'
}

// Allowed describes the accepted texts in words. It implements Scalar.
func (Amount) Allowed() string {
	return "a number such as 10, a percentage such as 80%, or a time such as 500ms"
}

// Pattern returns a regular expression that matches every accepted text. It implements Scalar.
func (Amount) Pattern() string {
	return `^([0-9]+(\.[0-9]+)?%?|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
}

// MarshalYAML returns the parsed text, or a number if the text is a number without a unit.
func (a Amount) MarshalYAML() (any, error) {
	if v, err := strconv.ParseFloat(a.Text, 64); err == nil {
		return v, nil
	}
	return a.Text, nil
}

// Percent is a share that is written as a percentage, with or without the percent sign. 80 and 80% mean the same. 0.8 is rejected.
type Percent float64 // the value as a fraction

// Parse sets the value from its text in a document. It implements Scalar.
func (p *Percent) Parse(text string) error {
	number, signed := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !IsPlainNumber(number) {
		return errors.New("is not a percentage")
	}
	if !signed && v > 0 && v <= 1 {
		return fmt.Errorf("is a fraction: write %s%%", strconv.FormatFloat(v*100, 'g', 4, 64))
	}
	if v < 0 || v > 10000 {
		return errRange
	}
	*p = Percent(v / 100)
	return nil
}

// Allowed describes the accepted texts in words. It implements Scalar.
func (Percent) Allowed() string { return "a percentage such as 80 or 80%" }

// Pattern returns a regular expression that matches every accepted text. It implements Scalar.
func (Percent) Pattern() string { return `^[0-9]+(\.[0-9]+)?%?$` }

// MarshalYAML returns the value with a percent sign, such as 80%.
func (p Percent) MarshalYAML() (any, error) {
	return strconv.FormatFloat(float64(p)*100, 'g', 6, 64) + "%", nil
}

// Percentile is the percentage of requests that must meet an objective, written as 99 or 99%. 0.99 is rejected.
type Percentile float64

// Parse sets the value from its text in a document. It implements Scalar.
func (p *Percentile) Parse(text string) error {
	var share Percent
	if err := share.Parse(text); err != nil {
		return err
	}
	number, _ := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return errors.New("is not a percentage")
	}
	if v < 50 || v > 99.99 {
		return errRange
	}
	*p = Percentile(v)
	return nil
}

// Allowed describes the accepted texts in words. It implements Scalar.
func (Percentile) Allowed() string { return "a percentage from 50 to 99.99, such as 99" }

// Pattern returns a regular expression that matches every accepted text. It implements Scalar.
func (Percentile) Pattern() string { return `^[0-9]+(\.[0-9]+)?%?$` }

// MarshalYAML returns the value as a number, such as 99.
func (p Percentile) MarshalYAML() (any, error) { return float64(p), nil }

// Tolerance is the tolerance of an HPA, a relative change. It is written as a number from 0 to 1 (0.1) or as a percentage (10%).
type Tolerance float64

// Parse sets the value from its text in a document. It implements Scalar.
func (t *Tolerance) Parse(text string) error {
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !IsPlainNumber(number) {
		return errors.New("is not a tolerance")
	}
	if percent {
		v /= 100
	} else if v > 1 && v <= 100 {
		return fmt.Errorf("is above 1: write %s%%", number)
	}
	if v < 0 || v > 1 {
		return errRange
	}
	*t = Tolerance(v)
	return nil
}

// Allowed describes the accepted texts in words. It implements Scalar.
func (Tolerance) Allowed() string { return "a number from 0 to 1 such as 0.1, or a percentage" }

// Pattern returns a regular expression that matches every accepted text. It implements Scalar.
func (Tolerance) Pattern() string { return `^[0-9]+(\.[0-9]+)?%?$` }

// MarshalYAML returns the value as a number, such as 0.1.
func (t Tolerance) MarshalYAML() (any, error) { return float64(t), nil }

// Bytes is a size in bytes. It is written as a number, or as a number with Ki, Mi or Gi.
type Bytes int64

// Parse sets the value from its text in a document. It implements Scalar.
func (b *Bytes) Parse(text string) error {
	number, factor := text, int64(1)
	for suffix, f := range map[string]int64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30} {
		if n, ok := strings.CutSuffix(text, suffix); ok {
			number, factor = n, f
		}
	}
	v, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return errors.New("is not a size")
	}
	if v <= 0 || v > (16<<30)/factor {
		return errRange
	}
	*b = Bytes(v * factor)
	return nil
}

// Allowed describes the accepted texts in words. It implements Scalar.
func (Bytes) Allowed() string { return "a size such as 16Mi or 512Ki, at most 16Gi" }

// Pattern returns a regular expression that matches every accepted text. It implements Scalar.
func (Bytes) Pattern() string { return `^[0-9]+(Ki|Mi|Gi)?$` }
