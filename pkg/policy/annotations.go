package policy

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscaler/gpuscaler/pkg/printable"
)

// AnnotationPrefix begins every annotation of ours.
const AnnotationPrefix = "gpuscaler.io/"

// The annotations that make a policy, on a ScaledObject or an HPA. The short ones are sugar for parts of spec.
const (
	AnnotationPolicy        = AnnotationPrefix + "policy"                  // name of the policy: a file's to build upon, or a new one
	AnnotationSpec          = AnnotationPrefix + "spec"                    // the same YAML as a file's spec
	AnnotationMode          = AnnotationPrefix + "mode"                    // auto, advisory or hold
	AnnotationCapacityGroup = AnnotationPrefix + "capacity-group"          // capacityGroup
	AnnotationGPUTarget     = AnnotationPrefix + "gpu-utilization-target"  // target of a dcgm signal named gpu
	AnnotationQueueSource   = AnnotationPrefix + "queue-source"            // where a signal named queue is read
	AnnotationQueueTarget   = AnnotationPrefix + "queue-depth-per-replica" // its target
	AnnotationSchedule      = AnnotationPrefix + "schedule"                // schedules, one a line
	AnnotationManageKEDA    = AnnotationPrefix + "manage-keda"             // what of KEDA's annotations we may write: activation, hold
)

// policyKeys are those of them that make a policy, in the order in which they are laid over one another, each with the name that
// the metadata of a KEDA trigger uses for it.
var policyKeys = []struct{ annotation, metadata string }{
	{AnnotationPolicy, "policy"}, {AnnotationSpec, "spec"}, {AnnotationMode, "mode"}, {AnnotationCapacityGroup, "capacityGroup"},
	{AnnotationGPUTarget, "gpuUtilizationTarget"}, {AnnotationQueueSource, "queueSource"}, {AnnotationQueueTarget, "queueDepthPerReplica"},
	{AnnotationSchedule, "schedule"},
}

// otherKeys are annotations of ours that mean something else, or nothing to us as readers.
var otherKeys = []string{AnnotationPaused, AnnotationOverride, AnnotationPrefix + "last-decision", AnnotationPrefix + "nudge", AnnotationManageKEDA}

// CarriesPolicy tells whether annotations make a policy.
func CarriesPolicy(annotations map[string]string) bool {
	for _, k := range policyKeys {
		if _, ok := annotations[k.annotation]; ok {
			return true
		}
	}
	return false
}

// written is one source of a policy's parts: the annotations, or the metadata of the trigger above them.
type written struct {
	values map[string]string // by annotation key
	field  func(key string) string
}

func annotationField(key string) string { return "metadata.annotations[" + key + "]" }

func metadataField(key string) string {
	for _, k := range policyKeys {
		if k.annotation == key {
			return "trigger metadata " + k.metadata
		}
	}
	return key
}

// fromMetadata translates a trigger's metadata into annotation keys. Keys of KEDA's own (scalerAddress) are not ours to judge.
func fromMetadata(metadata map[string]string) map[string]string {
	out := map[string]string{}
	for _, k := range policyKeys {
		if v, ok := metadata[k.metadata]; ok {
			out[k.annotation] = v
		}
	}
	return out
}

// unknownKeys refuses annotations that look like ours and are not: a misspelled target would otherwise silently not count.
func (f *findings) unknownKeys(annotations map[string]string) {
	known := slices.Clone(otherKeys)
	for _, k := range policyKeys {
		known = append(known, k.annotation)
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(key, AnnotationPrefix) && !slices.Contains(known, key) {
			f.problems = append(f.problems, Problem{
				File: f.file, Field: annotationField(key), Message: "there is no such annotation" + didYouMean(key, known),
				Found: quote(annotations[key]), Allowed: list(known),
			})
		}
	}
}

// lay puts what is written over a policy: first the spec, then the short keys. A value that cannot be shown as it is counts as absent.
func (f *findings) lay(spec *PolicySpec, w written) {
	w.values = maps.Clone(w.values)
	for _, key := range sortedKeys(w.values) {
		if v := w.values[key]; strings.HasPrefix(key, AnnotationPrefix) && key != AnnotationSpec && !printable.Is(v) {
			f.refuse(w.field(key), v, "has characters that cannot be shown", shownAllowed)
			delete(w.values, key)
		}
	}
	if text, ok := w.values[AnnotationSpec]; ok {
		f.laySpec(spec, text, w.field(AnnotationSpec))
	}
	var sugar PolicySpec
	if v, ok := w.values[AnnotationMode]; ok {
		sugar.Mode = v
		if modes := fieldsOf(reflect.TypeFor[PolicySpec]()).byName["mode"].enum; !slices.Contains(modes, v) {
			f.refuse(w.field(AnnotationMode), v, "is not a mode"+didYouMean(v, modes), list(modes))
			sugar.Mode = ""
		}
	}
	sugar.CapacityGroup = w.values[AnnotationCapacityGroup]
	f.origin(specPath.key("mode"), w, AnnotationMode)
	f.origin(specPath.key("capacityGroup"), w, AnnotationCapacityGroup)
	f.laySignals(spec, w)
	f.laySchedules(spec, w)
	overlay(spec, &sugar)
}

// refuse records a problem with the text of a key.
func (f *findings) refuse(field, found, message, allowed string) {
	f.problems = append(f.problems, Problem{File: f.file, Document: f.document, Field: field, Message: message, Found: quote(found), Allowed: allowed})
}

func (f *findings) laySpec(spec *PolicySpec, text, field string) {
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(text), &node); err != nil {
		f.refuse(field, text, "is not YAML: "+strings.TrimPrefix(err.Error(), "yaml: "), "the same YAML as a file's spec")
		return
	}
	if len(node.Content) == 0 {
		return
	}
	root := node.Content[0]
	inner := findings{file: f.file, document: f.document}
	var top PolicySpec
	reader := decoder{findings: &inner}
	reader.value(root, reflect.ValueOf(&top).Elem(), nil)
	for i := range inner.problems {
		inner.problems[i].Field = strings.TrimSuffix(field+"."+inner.problems[i].Field, ".")
	}
	f.problems = append(f.problems, inner.problems...)
	for _, name := range fieldsOf(reflect.TypeFor[PolicySpec]()).names {
		if n, exact := locate(root, rootPath.key(name)); exact && name != "signals" && name != "schedules" {
			f.origins[specPath.key(name).String()] = origin{field: field + "." + name, root: n}
		}
	}
	for i, s := range top.Signals {
		n, _ := locate(root, rootPath.key("signals").at(i))
		f.signal(spec, s, origin{field: fmt.Sprintf("%s.signals[%d]", field, i), root: n})
	}
	for i, s := range top.Schedules {
		n, _ := locate(root, rootPath.key("schedules").at(i))
		f.schedule(spec, s, origin{field: fmt.Sprintf("%s.schedules[%d]", field, i), root: n})
	}
	top.Signals, top.Schedules = nil, nil
	overlay(spec, &top)
}

// overlay puts every field that top sets into spec. Lists of named entries are merged elsewhere.
func overlay(spec, top *PolicySpec) {
	to, from := reflect.ValueOf(spec).Elem(), reflect.ValueOf(top).Elem()
	for i := range from.NumField() {
		if !from.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
}

// origin notes which key wrote a part of the policy.
func (f *findings) origin(p *yamlPath, w written, key string) {
	if v, ok := w.values[key]; ok {
		f.origins[p.String()] = origin{field: w.field(key), text: v}
	}
}

// signal adds a signal, or replaces the one of its name.
func (f *findings) signal(spec *PolicySpec, s SignalSpec, from origin) {
	i := slices.IndexFunc(spec.Signals, func(have SignalSpec) bool { return have.Name == s.Name })
	if i < 0 {
		i, spec.Signals = len(spec.Signals), append(spec.Signals, SignalSpec{})
	}
	spec.Signals[i] = s
	f.origins[specPath.key("signals").at(i).String()] = from
}

func (f *findings) schedule(spec *PolicySpec, s ScheduleSpec, from origin) {
	i := slices.IndexFunc(spec.Schedules, func(have ScheduleSpec) bool { return have.Name == s.Name })
	if i < 0 {
		i, spec.Schedules = len(spec.Schedules), append(spec.Schedules, ScheduleSpec{})
	}
	spec.Schedules[i] = s
	f.origins[specPath.key("schedules").at(i).String()] = from
}

// laySignals makes the signals gpu and queue of the short keys.
func (f *findings) laySignals(spec *PolicySpec, w written) {
	if text, ok := w.values[AnnotationGPUTarget]; ok {
		if target := f.amount(w, AnnotationGPUTarget, text); target != nil {
			f.signal(spec, SignalSpec{Name: "gpu", Type: "dcgm", Target: target}, origin{field: w.field(AnnotationGPUTarget), text: text})
		}
	}
	source, hasSource := w.values[AnnotationQueueSource]
	depth, hasDepth := w.values[AnnotationQueueTarget]
	if !hasSource && !hasDepth {
		return
	}
	i := slices.IndexFunc(spec.Signals, func(s SignalSpec) bool { return s.Name == "queue" })
	queue := SignalSpec{Name: "queue"}
	from := origin{field: w.field(AnnotationQueueSource), text: source}
	switch {
	case hasSource:
		f.queueSource(&queue, source, w)
		if i >= 0 {
			queue.Target = spec.Signals[i].Target
		}
	case i >= 0:
		queue, from = spec.Signals[i], origin{field: w.field(AnnotationQueueTarget), text: depth}
	default:
		f.refuse(w.field(AnnotationQueueTarget), depth, "there is no queue to measure", AnnotationQueueSource+" beside it")
		return
	}
	if hasDepth {
		queue.Target = f.amount(w, AnnotationQueueTarget, depth)
	} else if queue.Target == nil {
		f.refuse(w.field(AnnotationQueueSource), source, "has no target", AnnotationQueueTarget+" beside it")
	}
	if queue.Target != nil && queue.Type != "" {
		f.signal(spec, queue, from)
		f.origin(specPath.key("signals").at(slices.IndexFunc(spec.Signals, func(s SignalSpec) bool { return s.Name == "queue" })).key("target"), w, AnnotationQueueTarget)
	}
}

func (f *findings) amount(w written, key, text string) *Amount {
	var a Amount
	if err := a.read(strings.TrimSpace(text)); err != nil {
		f.refuse(w.field(key), text, err.Error(), a.allowed())
		return nil
	}
	return &a
}

// queueSource reads "gateway-queue", "keda/sqs", "redis-embed/jobs" or "external/sqs-depth".
func (f *findings) queueSource(s *SignalSpec, text string, w written) {
	text = strings.TrimSpace(text)
	place, item, split := strings.Cut(text, "/")
	switch {
	case text == "" || split && (place == "" || item == ""):
		f.refuse(w.field(AnnotationQueueSource), text, "names no queue", queueSourceAllowed)
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
