package schema

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Reference returns the description of every field of the format as Markdown. It uses the same field tables as the decoder.
func Reference() string {
	var b strings.Builder
	b.WriteString("# Configuration reference\n\nGenerated from pkg/policy by `make generate`; do not edit.\n")
	b.WriteString("Durations are `90s`, `10m` or whole seconds. Percentages are `70` or `70%`; a fraction is rejected. " +
		"A field without a value is an omitted field.\n")
	for _, document := range []struct {
		kind string
		of   reflect.Type
	}{{spec.KindScalingPolicy, reflect.TypeFor[spec.Policy]()}, {spec.KindPlatformConfig, reflect.TypeFor[spec.Platform]()},
		{spec.KindPriceBook, reflect.TypeFor[spec.PriceBook]()}} {
		fmt.Fprintf(&b, "\n## %s\n", document.kind)
		section(&b, "spec", document.of)
	}
	b.WriteString("\n## Metrics by signal type\n\nThe first metric is the default.\n\n| type | metrics |\n|---|---|\n")
	for _, t := range spec.SignalTypes() {
		if metrics := policy.Metrics(policy.SourceType(t)); metrics != nil {
			names := make([]string, len(metrics))
			for i, m := range metrics {
				names[i] = "`" + m.Name + "`"
			}
			fmt.Fprintf(&b, "| %s | %s |\n", t, strings.Join(names, ", "))
		}
	}
	b.WriteString(evidence())
	return b.String()
}

// evidence returns a Markdown table with the quantity that each signal measures for an objective.
func evidence() string {
	var b strings.Builder
	b.WriteString("\n## What a signal measures for an objective\n\n")
	b.WriteString("An objective needs at least one signal that measures arrivals, queued or inFlight. Several signals may measure queued or " +
		"inFlight; their values are added. Of every other measure there can be one signal.\n\n| type | metric | measures |\n|---|---|---|\n")
	for _, t := range spec.SignalTypes() {
		by := map[scaling.Measure][]string{}
		for _, m := range policy.Metrics(policy.SourceType(t)) {
			by[m.Measures] = append(by[m.Measures], "`"+m.Name+"`")
		}
		for m := scaling.MeasureArrivals; m <= scaling.MeasureLatency; m++ {
			if by[m] != nil {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", t, strings.Join(by[m], ", "), m)
			}
		}
	}
	b.WriteString("| model servers | `queueTime`, `timeToFirstToken` or `interTokenLatency`: the time that the objective limits (`wait`, " +
		"`timeToFirstToken`, `interTokenLatency`), at its percentile | latency |\n")
	b.WriteString("| redis, kueue, keda | | queued; keda: or the field `measures` |\n")
	b.WriteString("| prometheus | a rate or an increase of a counter that exists without pods (a gateway's) | arrivals |\n")
	b.WriteString("| prometheus | a rate or an increase of a counter of the pods (`vllm:request_success_total`) | served |\n")
	b.WriteString("| prometheus, external | everything else | the field `measures` |\n")
	return b.String()
}

// section writes the table of one struct, followed by the tables of the structs in its fields.
func section(b *strings.Builder, path string, t reflect.Type) {
	fmt.Fprintf(b, "\n### %s\n\n| field | meaning | default |\n|---|---|---|\n", path)
	type inner struct {
		path string
		of   reflect.Type
	}
	var below []inner
	for _, f := range spec.FieldsOf(t).Fields {
		doc, preset := f.Doc, f.Default
		if f.Enum != nil {
			doc += " (`" + strings.Join(f.Enum, "`, `") + "`)"
		}
		if f.Required {
			preset = "required"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.Name, strings.ReplaceAll(doc, "|", `\|`), preset)
		of, suffix := t.Field(f.Index).Type, ""
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			if of.Kind() == reflect.Slice {
				suffix = "[]"
			}
			of = of.Elem()
		}
		if _, isWord := reflect.New(of).Interface().(spec.Scalar); of.Kind() == reflect.Struct && !isWord {
			below = append(below, inner{path + "." + f.Name + suffix, of})
		}
	}
	for _, i := range below {
		section(b, i.path, i.of)
	}
}
