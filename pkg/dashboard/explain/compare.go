package explain

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// Comparison contains the properties of two decisions of a workload, in three lists.
type Comparison struct {
	State, Signals, Rules []Compared
}

// Compared is one property of two decisions. The text of a decision without this property is empty.
type Compared struct {
	Name          string
	First, Second string
	Change        string // the difference of the numbers with a sign, such as "+3"; empty: one of the texts is not a number
}

// Differs reports whether the property changed.
func (c Compared) Differs() bool { return c.First != c.Second }

// Difference describes the change in words: "+3", "differs", "only in the first", "only in the second" or "the same".
func (c Compared) Difference() string {
	switch {
	case !c.Differs():
		return "the same"
	case c.First == "":
		return "only in the second"
	case c.Second == "":
		return "only in the first"
	case c.Change != "":
		return c.Change
	}
	return "differs"
}

// Compare compares two explanations of one workload. zone is the time zone of times in the result. In each list of the result, the
// properties that differ are first.
func Compare(first, second *Explanation, zone *time.Location) Comparison {
	return Comparison{
		State:   joined(first.state(zone), second.state(zone)),
		Signals: joined(first.signalTexts(), second.signalTexts()),
		Rules:   joined(first.ruleTexts(), second.ruleTexts()),
	}
}

// property is the name of a property of a decision, with the text that the web page shows.
type property struct {
	name, text string
	number     float64
	isNumber   bool
}

// joined pairs the properties of two decisions that have the same name, in the order of first. Properties that only one decision has
// follow.
func joined(first, second []property) (out []Compared) {
	for _, a := range first {
		c := Compared{Name: a.name, First: a.text}
		if i := slices.IndexFunc(second, func(b property) bool { return b.name == a.name }); i >= 0 {
			b := second[i]
			if c.Second = b.text; a.isNumber && b.isNumber {
				c.Change = signed(b.number - a.number)
			}
		}
		out = append(out, c)
	}
	for _, b := range second {
		if !slices.ContainsFunc(first, func(a property) bool { return a.name == b.name }) {
			out = append(out, Compared{Name: b.name, Second: b.text})
		}
	}
	slices.SortStableFunc(out, func(a, b Compared) int {
		switch {
		case a.Differs() == b.Differs():
			return 0
		case a.Differs():
			return -1
		}
		return 1
	})
	return out
}

func signed(v float64) string {
	text := FormatValue(math.Abs(v), "count")
	switch {
	case v > 0:
		return "+" + text
	case v < 0:
		return "−" + text
	}
	return text
}

// state returns the target and the inputs of the decision that are not signals.
func (e *Explanation) state(zone *time.Location) []property {
	count := func(name string, n int32) property {
		return property{name: name, text: strconv.Itoa(int(n)), number: float64(n), isNumber: true}
	}
	word := func(name, text string) property { return property{name: name, text: text} }
	inputs, setBy, scaledBy := "complete", "no user", "nothing"
	if e.Degraded {
		inputs = "missing"
	}
	if e.Operator != nil {
		setBy = e.Operator.Text(zone)
	}
	if e.ScaledBy != nil {
		scaledBy = e.ScaledBy.Text()
	}
	out := []property{
		count("Target", e.Target), word("Binding rule", e.Binding), count("Ready", e.Ready), count("Loading", e.Loading),
		count("Pending", e.Pending), count("Crashing", e.Crashing), count("Rejected", e.Rejected), count("Current", e.Current),
		word("Inputs", inputs), word("Mode", e.Mode), word("Policy", e.Origin), word("Set by", setBy), word("Scaled by", scaledBy),
	}
	if c := e.CappedBy; c != nil {
		out = append(out, word("Capped by", fmt.Sprintf("capacity group %s: at most %d", c.Group, c.Cap)))
	}
	if o := e.Objective; o != nil {
		out = append(out, word("Objective", o.SLO), word("Learned", o.Learned), word("Safe policy", o.SafePolicy))
		for _, t := range o.Terms {
			out = append(out, count("Replicas for "+t.Name, t.Replicas))
		}
	}
	return out
}

// signalTexts returns the value, the target and the recommendation of each signal.
func (e *Explanation) signalTexts() (out []property) {
	for i := range e.Signals {
		s := &e.Signals[i]
		value := property{name: s.Name + ", value", text: s.ValueText()}
		if s.Value != nil && s.Unit == "count" {
			value.number, value.isNumber = *s.Value, true
		}
		recommends := property{name: s.Name + ", recommends", text: s.RecommendsText()}
		if s.Recommends != nil {
			recommends.number, recommends.isNumber = float64(*s.Recommends), true
		}
		out = append(out, value, property{name: s.Name + ", target", text: s.TargetText()}, recommends)
		if s.Reported >= 0 {
			out = append(out, property{name: s.Name + ", pods", text: s.PodsText()})
		}
		if s.Note != "" {
			out = append(out, property{name: s.Name + ", note", text: s.Note})
		}
	}
	return out
}

// ruleTexts returns, for each rule that was applied, the target before and after the rule, and the reason of the change.
func (e *Explanation) ruleTexts() (out []property) {
	seen := map[string]int{}
	for _, r := range e.Rules {
		name := r.Name
		if seen[r.Name]++; seen[r.Name] > 1 {
			name += " (" + strconv.Itoa(seen[r.Name]) + ")"
		}
		text := strconv.Itoa(int(r.From)) + " → " + strconv.Itoa(int(r.To)) + ": " + r.Text
		if r.From == r.To {
			text = strconv.Itoa(int(r.To)) + ": " + r.Text
		}
		if r.Binding {
			text += " (binding)"
		}
		out = append(out, property{name: name, text: text})
	}
	return out
}
