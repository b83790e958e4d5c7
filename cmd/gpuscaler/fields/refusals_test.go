package fields_test

import (
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// refusalProbes returns probes of fields that refer to other documents or depend on the permissions of a namespace. Both values of such a
// field are well formed. One value is refused because of the object to which it refers.
func refusalProbes() []fieldProbe {
	twoTeams := edit{"platform spec.teams": []any{fields("name", "chat", "namespaces", []any{"team-chat"}), fields("name", "batch",
		"namespaces", []any{"team-batch"})}}
	return []fieldProbe{
		{field: "policy metadata.name", is: "other", with: edit{"policy2": secondPolicy}, was: "llama", see: refusals},
		{field: "policy metadata.namespace", is: "team-other", with: edit{"platform spec.dataSources[0].namespaces": []any{"team-chat"}},
			see: refusals},
		{field: "policy spec.signals[0].name", is: "backlog", with: edit{"policy spec.formula": "queue.replicas"}, see: refusals},
		{field: "policy spec.schedules[0].name", is: "night", with: edit{"policy spec.schedules": []any{office,
			fields("name", "night", "timezone", "UTC", "start", "0 22 * * *", "end", "0 23 * * *", "minReplicas", 5)}}, see: refusals},
		{field: "platform spec.teams[0].name", is: "batch", with: twoTeams, see: refusals},
		{field: "platform spec.teams[0].configMaps", was: false, is: true, with: oneTeam(), see: fromConfigMap},
		{field: "platform spec.teams[0].capacityGroups[0]", was: "chat", is: "batch", see: refusals, with: edit{
			"policy spec.capacityGroup": "chat", "platform spec.teams": twoTeams["platform spec.teams"],
			"platform spec.capacityGroups": []any{group("chat", "a"), group("batch", "b")}}},
		{field: "platform spec.dataSources[0].name", is: "other", see: refusals},
		{field: "platform spec.dataSources[0].namespaces[0]", was: "team-chat", is: "team-other", see: refusals},
		{field: "platform spec.dataSources[0].default", is: true, see: refusals, with: edit{"policy spec.signals[0].source": absent{},
			"platform spec.dataSources[1]": fields("name", "jobs2", "type", "redis", "address", "redis2:6379", "default", true)}},
		{field: "platform spec.queries[0].name", is: "other", see: refusals, with: joined(oneQuery, edit{
			"policy spec.signals[0]": fields("name", "queue", "type", "prometheus", "queryRef", "depth", "target", 10)})},
		{field: "platform spec.queries[0].existsAtZero", was: true, is: false, see: refusals, with: joined(oneQuery, joined(idle, edit{
			"policy spec.signals[0]": fields("name", "queue", "type", "prometheus", "queryRef", "depth", "target", 10)}))},
		{field: "platform spec.capacityGroups[0].name", is: "other", see: refusals, with: edit{
			"policy spec.capacityGroup": "chat", "platform spec.capacityGroups": []any{group("chat", "a")}}},
		{field: "platform spec.capacityGroups[0].schedules[0].name", is: "night", see: refusals, with: edit{
			"platform spec.capacityGroups":              []any{group("chat", "a")},
			"platform spec.capacityGroups[0].schedules": []any{groupWindow("office"), groupWindow("night")}}},
	}
}

// fromConfigMap applies the policy as a ConfigMap of its team. It returns the policies that the store accepts and the problems of the
// ConfigMap.
func fromConfigMap(t *testing.T, d docSet) (out []string) {
	text := d.text("policy")
	d = d.clone()
	delete(d, "policy")
	s := good(t, d)
	s.SetConfigMap(store.ConfigMap{Namespace: "team-chat", Name: "policies", Data: map[string]string{"llama": text}})
	s.Publish()
	for _, w := range s.Current() {
		out = append(out, "in force: "+w.Key.String())
	}
	for _, p := range s.ConfigMapStatuses()[0].Problems {
		out = append(out, p.String())
	}
	return out
}

// secondPolicy is a policy with the name llama, for another Deployment than the policy under test.
var secondPolicy = fields("apiVersion", "gpuscaler.io/v1alpha1", "kind", "ScalingPolicy", "metadata", fields("name", "llama", "namespace",
	"team-chat"),
	"spec", fields("scaleTargetRef", fields("name", "second"), "maxReplicas", 3, "signals", []any{redisSignal("queue")}))

func group(name, pools string) map[string]any {
	return fields("name", name, "resource", "nvidia.com/gpu", "nodePools", fields("spot", pools+"-spot", "on-demand", pools+"-od"))
}

func groupWindow(name string) map[string]any {
	return fields("name", name, "timezone", "UTC", "start", "0 8 * * *", "end", "0 9 * * *", "weight", 50)
}

// oneQuery is an edit that adds a Prometheus server and a query to the platform.
var oneQuery = edit{
	"platform spec.dataSources[1]": fields("name", "prom", "type", "prometheus", "address", "http://prom:9090"),
	"platform spec.queries":        []any{fields("name", "depth", "query", "sum by (namespace, pool) (queue_size)", "workloadLabel", "pool")},
}
