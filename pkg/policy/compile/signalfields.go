package compile

import (
	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

// fieldsFor lists, in addition to commonFields, the fields that a signal of each type can have.
var fieldsFor = map[policy.SourceType][]string{
	policy.SourcePrometheus: {"source", "queryRef", "labelValue", "metric", "matchLabels", "aggregate", "rate", "quantile", "window",
		"measures"},
	policy.SourceRedis:    {"source", "listName", "stream", "consumerGroup"},
	policy.SourceKueue:    {"localQueue", "clusterQueue"},
	policy.SourceExternal: {"source", "metric", "matchLabels", "measures"},
	policy.SourceKEDA:     {"trigger", "measures"},
}

var commonFields = []string{"name", "type", "target", "activationTarget", "metricType", "class", "optional", "maxAge", "minCoverage",
	"forecast"}

var podFields = []string{"source", "metric", "quantile", "window"}

func specificFields(t policy.SourceType) []string {
	if t.ReadsPods() {
		return podFields
	}
	return fieldsFor[t]
}
