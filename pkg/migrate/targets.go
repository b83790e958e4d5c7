package migrate

import (
	"strconv"
	"strings"
)

// targetFields contains, for each type of KEDA trigger, the metadata fields that can contain the target per replica. targetOf uses the
// first of these fields that the trigger sets. If the trigger sets none of them, targetOf uses the first field of the list.
var targetFields = map[string][]field{
	"activemq":               {{"targetQueueSize", 10}},
	"apache-kafka":           {{"lagThreshold", 10}},
	"artemis-queue":          {{"queueLength", 10}},
	"aws-cloudwatch":         {{"targetMetricValue", 0}},
	"aws-kinesis-stream":     {{"shardCount", 2}},
	"aws-sqs-queue":          {{"queueLength", 5}},
	"azure-monitor":          {{"targetValue", 0}},
	"azure-queue":            {{"queueLength", 5}},
	"azure-servicebus":       {{"messageCount", 5}},
	"beanstalkd":             {{"value", 0}},
	"datadog":                {{"targetValue", 0}, {"queryValue", 0}},
	"elasticsearch":          {{"targetValue", 0}},
	"gcp-pubsub":             {{"value", 10}, {"subscriptionSize", 0}},
	"graphite":               {{"threshold", 0}},
	"ibmmq":                  {{"queueDepth", 20}},
	"influxdb":               {{"thresholdValue", 0}},
	"kafka":                  {{"lagThreshold", 10}},
	"loki":                   {{"threshold", 0}},
	"metrics-api":            {{"targetValue", 0}},
	"mongodb":                {{"queryValue", 0}},
	"mssql":                  {{"targetValue", 0}},
	"mysql":                  {{"queryValue", 0}},
	"nats-jetstream":         {{"lagThreshold", 10}},
	"new-relic":              {{"threshold", 0}},
	"postgresql":             {{"targetQueryValue", 0}},
	"prometheus":             {{"threshold", 0}},
	"pulsar":                 {{"msgBacklogThreshold", 10}},
	"rabbitmq":               {{"value", 0}, {"queueLength", 0}},
	"redis":                  {{"listLength", 5}},
	"redis-cluster":          {{"listLength", 5}},
	"redis-cluster-streams":  {{"pendingEntriesCount", 5}, {"streamLength", 5}, {"lagCount", 0}},
	"redis-sentinel":         {{"listLength", 5}},
	"redis-sentinel-streams": {{"pendingEntriesCount", 5}, {"streamLength", 5}, {"lagCount", 0}},
	"redis-streams":          {{"pendingEntriesCount", 5}, {"streamLength", 5}, {"lagCount", 0}},
	"solace-event-queue":     {{"messageCountTarget", 0}},
	"temporal":               {{"targetQueueSize", 5}},
}

type field struct {
	name     string
	fallback float64 // KEDA's default value; 0 if the field is required
}

// targetOf returns the name and the value of the metadata field that contains the target of a trigger. If the trigger does not set the
// field, the value is KEDA's default, or 0 if there is no default. known is false if targetFields does not contain the type of the trigger.
func targetOf(t map[string]any) (name string, value float64, known bool) {
	kind, _ := t["type"].(string)
	fields := targetFields[kind]
	if len(fields) == 0 {
		return "", 0, false
	}
	metadata, _ := t["metadata"].(map[string]any)
	for _, f := range fields {
		if text, written := metadata[f.name]; written {
			v, _ := strconv.ParseFloat(strings.TrimSpace(textOf(text)), 64)
			return f.name, v, true
		}
	}
	return fields[0].name, fields[0].fallback, true
}

// activationOf returns the activation target of a trigger. For example, if the target is in listLength, the activation target is in
// activationListLength.
func activationOf(t map[string]any) float64 {
	name, _, known := targetOf(t)
	if !known {
		return 0
	}
	metadata, _ := t["metadata"].(map[string]any)
	v, _ := strconv.ParseFloat(strings.TrimSpace(textOf(metadata[activationField(name)])), 64)
	return v
}

func activationField(target string) string {
	return "activation" + strings.ToUpper(target[:1]) + target[1:]
}

// setTarget sets the target and the activation target of a trigger. If the type of the trigger is unknown, it does nothing.
func setTarget(t map[string]any, target, activation float64) {
	name, _, known := targetOf(t)
	if !known {
		return
	}
	metadata := t["metadata"].(map[string]any)
	metadata[name] = number(target)
	delete(metadata, activationField(name))
	if activation > 0 {
		metadata[activationField(name)] = number(activation)
	}
}

func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case int:
		return strconv.Itoa(v)
	case float64:
		return number(v)
	}
	return ""
}
