package annotations

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"github.com/gpuscaler/gpuscaler/pkg/printable"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"go.yaml.in/yaml/v3"
)

// overlay sets the fields of a policy from a Layer, and reports problems to its Collector.
type overlay struct{ *decode.Collector }

// Apply sets the fields of the policy `written` that the layer w contains. It applies the annotation Spec before the short forms, which
// take precedence. If a value contains control characters, Apply reports a problem and ignores the value.
func Apply(c *decode.Collector, written *spec.Policy, w Layer) {
	f := overlay{c}
	w.Values = maps.Clone(w.Values)
	for _, key := range slices.Sorted(maps.Keys(w.Values)) {
		if v := w.Values[key]; strings.HasPrefix(key, Prefix) && key != Spec && !printable.Is(v) {
			f.RejectText(w.Field(key), v, "contains characters that cannot be displayed", decode.PrintableText)
			delete(w.Values, key)
		}
	}
	if text, ok := w.Values[Spec]; ok {
		f.applySpec(written, text, w.Field(Spec))
	}
	var sugar spec.Policy
	if v, ok := w.Values[Mode]; ok {
		sugar.Mode = v
		if modes := spec.FieldsOf(reflect.TypeFor[spec.Policy]()).ByName["mode"].Enum; !slices.Contains(modes, v) {
			f.RejectText(w.Field(Mode), v, "is not a mode"+wording.DidYouMean(v, modes), wording.List(modes))
			sugar.Mode = ""
		}
	}
	sugar.CapacityGroup = w.Values[CapacityGroup]
	f.origin(decode.Spec.Key("mode"), w, Mode)
	f.origin(decode.Spec.Key("capacityGroup"), w, CapacityGroup)
	f.applyObjective(&sugar, w)
	f.applySignals(written, sugar.Objective != nil || written.Objective != nil, w)
	f.applySchedules(written, w)
	setFields(written, &sugar)
}

func (f overlay) applySpec(written *spec.Policy, text, field string) {
	root := f.parse(text, field)
	if root == nil {
		return
	}
	inner := decode.Collector{File: f.File, Document: f.Document}
	var top spec.Policy
	inner.DecodeNode(root, &top)
	for i := range inner.Problems {
		inner.Problems[i].Field = strings.TrimSuffix(field+"."+inner.Problems[i].Field, ".")
	}
	f.Include(inner.Problems)
	f.Decoded = len(f.Problems)
	if f.tooMany(field+".signals", len(top.Signals), scaling.MaxSignals) ||
		f.tooMany(field+".schedules", len(top.Schedules), scaling.MaxSchedules) {
		return
	}
	for _, name := range spec.FieldsOf(reflect.TypeFor[spec.Policy]()).Names {
		if n, exact := decode.Locate(root, decode.Root.Key(name)); exact && name != "signals" && name != "schedules" {
			f.Origins[decode.Spec.Key(name).String()] = decode.Origin{Field: field + "." + name, Root: n}
		}
	}
	for i, s := range top.Signals {
		n, _ := decode.Locate(root, decode.Root.Key("signals").At(i))
		f.signal(written, s, decode.Origin{Field: fmt.Sprintf("%s.signals[%d]", field, i), Root: n})
	}
	for i, s := range top.Schedules {
		n, _ := decode.Locate(root, decode.Root.Key("schedules").At(i))
		f.schedule(written, s, decode.Origin{Field: fmt.Sprintf("%s.schedules[%d]", field, i), Root: n})
	}
	top.Signals, top.Schedules = nil, nil
	setFields(written, &top)
}

// parse returns the root of the YAML document in text. For a text that is not YAML or has several documents, it reports a problem and
// returns nil. For an empty text it returns nil.
func (f overlay) parse(text, field string) *yaml.Node {
	const allowed = "one document: the same YAML as the spec of a file"
	var node, second yaml.Node
	documents := yaml.NewDecoder(strings.NewReader(text))
	err := documents.Decode(&node)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		f.RejectText(field, text, "is not YAML: "+strings.TrimPrefix(err.Error(), "yaml: "), allowed)
		return nil
	case !errors.Is(documents.Decode(&second), io.EOF):
		f.RejectText(field, text, "has more text after its first YAML document", allowed)
		return nil
	case len(node.Content) == 0:
		return nil
	}
	return node.Content[0]
}

// tooMany reports a problem and returns true if a list is longer than a policy may have. The caller checks this before it merges the lists,
// because the time for merging increases with the square of their length.
func (f overlay) tooMany(field string, n, most int) bool {
	if n <= most {
		return false
	}
	f.RejectText(field, fmt.Sprint(n), fmt.Sprintf("has %d entries", n), fmt.Sprintf("at most %d", most))
	return true
}

// setFields sets each field of the policy `written` to the value of this field in the policy `top`, if that value is not zero. It replaces
// whole lists. The caller must therefore merge the lists of signals and schedules by name before it calls setFields.
func setFields(written, top *spec.Policy) {
	to, from := reflect.ValueOf(written).Elem(), reflect.ValueOf(top).Elem()
	for i := range from.NumField() {
		if !from.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
}

// origin records that a key of the layer w set the path p of the policy, so that problems at this path refer to the key.
func (f overlay) origin(p *decode.Path, w Layer, key string) {
	if v, ok := w.Values[key]; ok {
		f.Origins[p.String()] = decode.Origin{Field: w.Field(key), Text: v}
	}
}

// signal adds the signal s to the policy `written`. If the policy has a signal of this name, s replaces that signal.
func (f overlay) signal(written *spec.Policy, s spec.Signal, from decode.Origin) {
	i := slices.IndexFunc(written.Signals, func(have spec.Signal) bool { return have.Name == s.Name })
	if i < 0 {
		i, written.Signals = len(written.Signals), append(written.Signals, spec.Signal{})
	}
	written.Signals[i] = s
	f.Origins[decode.Spec.Key("signals").At(i).String()] = from
}

func (f overlay) schedule(written *spec.Policy, s spec.Schedule, from decode.Origin) {
	i := slices.IndexFunc(written.Schedules, func(have spec.Schedule) bool { return have.Name == s.Name })
	if i < 0 {
		i, written.Schedules = len(written.Schedules), append(written.Schedules, spec.Schedule{})
	}
	written.Schedules[i] = s
	f.Origins[decode.Spec.Key("schedules").At(i).String()] = from
}

// applySignals adds the signals named gpu and queue from the annotations GPUTarget, QueueSource and QueueTarget. If the policy has an
// objective, the signal queue needs no target.
func (f overlay) applySignals(written *spec.Policy, hasObjective bool, w Layer) {
	if text, ok := w.Values[GPUTarget]; ok {
		if target := f.amount(w, GPUTarget, text); target != nil {
			f.signal(written, spec.Signal{Name: "gpu", Type: "dcgm", Target: target}, decode.Origin{Field: w.Field(GPUTarget), Text: text})
		}
	}
	f.applyQueue(written, hasObjective, w)
}

// applyQueue adds the signal named queue from the annotations QueueSource and QueueTarget.
func (f overlay) applyQueue(written *spec.Policy, hasObjective bool, w Layer) {
	source, hasSource := w.Values[QueueSource]
	depth, hasDepth := w.Values[QueueTarget]
	if !hasSource && !hasDepth {
		return
	}
	i := slices.IndexFunc(written.Signals, func(s spec.Signal) bool { return s.Name == "queue" })
	queue := spec.Signal{Name: "queue"}
	from := decode.Origin{Field: w.Field(QueueSource), Text: source}
	switch {
	case hasSource:
		f.queueSource(&queue, source, w)
		if i >= 0 {
			queue.Target = written.Signals[i].Target
		}
	case i >= 0:
		queue, from = written.Signals[i], decode.Origin{Field: w.Field(QueueTarget), Text: depth}
	default:
		f.RejectText(w.Field(QueueTarget), depth, "needs the source of the queue", QueueSource+", too")
		return
	}
	if hasDepth {
		queue.Target = f.amount(w, QueueTarget, depth)
	} else if queue.Target == nil && !hasObjective {
		f.RejectText(w.Field(QueueSource), source, "needs the target of the queue", QueueTarget+" or "+Objective+", too")
	}
	if hasObjective && queue.Type != "" && queue.Measures == "" && hasSource && queue.Type != "redis" {
		queue.Measures = "queued"
	}
	if (queue.Target != nil || hasObjective && !hasDepth) && queue.Type != "" {
		f.signal(written, queue, from)
		f.origin(decode.Spec.Key("signals").At(slices.IndexFunc(written.Signals,
			func(s spec.Signal) bool { return s.Name == "queue" })).Key("target"), w, QueueTarget)
	}
}

func (f overlay) amount(w Layer, key, text string) *spec.Amount {
	var a spec.Amount
	if err := a.Parse(strings.TrimSpace(text)); err != nil {
		f.RejectText(w.Field(key), text, err.Error(), a.Allowed())
		return nil
	}
	return &a
}

// queueSource sets the source of a signal from the text of the annotation QueueSource. Examples are "gateway-queue" (a query of the
// PlatformConfig), "keda/sqs", "redis-embed/jobs" and "external/sqs-depth".
func (f overlay) queueSource(s *spec.Signal, text string, w Layer) {
	text = strings.TrimSpace(text)
	place, item, split := strings.Cut(text, "/")
	switch {
	case text == "" || split && (place == "" || item == ""):
		f.RejectText(w.Field(QueueSource), text, "is not a queue source", queueSourceAllowed)
	case !split:
		s.Type, s.QueryRef = "prometheus", text
	case place == "keda":
		s.Type, s.Trigger = "keda", item
	case place == "external":
		s.Type, s.Metric = "external", item
	default:
		s.Type, s.Source, s.ListName = "redis", place, item
	}
}

const queueSourceAllowed = "the name of a PlatformConfig query, keda/<trigger name>, external/<metric>, or <redis data source>/<list>"
