package store_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// annotationValues are the annotations of test objects. The keys omit the prefix gpuscaler.io/. Keys of trigger metadata begin with
// "metadata/". Every object has the annotations of the first element (the base object) and changes them by its own element. The value "-"
// removes an annotation.
var annotationValues = []map[string]string{
	{"queue-source": "keda/sqs", "queue-depth-per-replica": "10"},
	{"queue-source": "gateway-queue"}, {"queue-source": " gateway-queue "}, {"queue-source": "r/jobs"}, {"queue-source": "r/jobs/high"},
	{"queue-source": "external/depth"}, {"queue-source": ""}, {"queue-source": "keda/"}, {"queue-source": "/sqs"},
	{"queue-source": "keda/sqz"}, {"queue-source": "x/jobs"}, {"queue-source": "-"}, {"queue-depth-per-replica": "-"},
	{"queue-source": "-", "queue-depth-per-replica": "-"},
	{"queue-depth-per-replica": "ten"}, {"queue-depth-per-replica": " 7 "}, {"queue-depth-per-replica": "5%"},
	{"gpu-utilization-target": "70"}, {"gpu-utilization-target": "70%"}, {"gpu-utilization-target": "0.7"}, {"gpu-utilization-target": ""},
	{"metadata/gpuUtilizationTarget": "60", "gpu-utilization-target": "70"}, {"metadata/queueDepthPerReplica": "4"},
	{"metadata/queueSource": "r/jobs"}, {"metadata/mode": "hold", "mode": "advisory"}, {"metadata/mode": "off", "mode": "advisory"},
	{"metadata/scalerAddress": "dns:///x:1"},
	{"mode": "auto"}, {"mode": "advisory"}, {"mode": "hold"}, {"mode": "off", "spec": "mode: advisory"}, {"mode": ""},
	{"capacity-group": "chat"}, {"capacity-group": "batch"}, {"capacity-group": "\a"}, {"mode": "\u202e"},
	{"objective": "wait=10s"}, {"objective": "wait=10s percentile=95", "queue-depth-per-replica": "-"},
	{"objective": "deadline=30m percentile=95%", "queue-depth-per-replica": "-", "queue-source": "r/jobs"},
	{"objective": "wait=10s", "queue-depth-per-replica": "-", "queue-source": "gateway-queue"},
	{"objective": "timeToFirstToken=1s"}, {"objective": "wait"}, {"objective": "waits=10s"}, {"objective": "wait=10s wait=20s"},
	{"objective": "wait=soon"}, {"objective": "wait=10s deadline=1h"}, {"objective": "percentile=99"}, {"objective": ""},
	{"schedule": "office UTC \"0 8 * * *\" \"0 20 * * *\" min=2 max=8 lead=5m"},
	{"schedule": "\n# nothing\n  \"at night\" Europe/Berlin \"0 23 * * *\" \"0 6 * * *\" max=1  \n\nd UTC \"0 9 * * *\" \"0 10 * * *\" min=3"},
	{"schedule": "a UTC \"0 8 * * *\" \"0 20 * * *\" min=2\na UTC \"0 9 * * *\" \"0 20 * * *\" min=4"},
	{"schedule": "a UTC \"0 8 * * *\""}, {"schedule": "a UTC \"0 8 * * *\" \"0 20 * * *"}, {"schedule": "a UTC 0 8 * * * 0 20 * * * min=1"},
	{"schedule": "\na UTC \"0 8 * * *\" \"0 20 * * *\" min=x"}, {"schedule": "a UTC \"0 8 * * *\" \"0 20 * * *\" min=-1"},
	{"schedule": "a UTC \"0 8 * * *\" \"0 20 * * *\" min=0 max=100000"}, {"schedule": "a UTC \"0 8 * * *\" \"0 20 * * *\" max=100001"},
	{"schedule": "a UTC \"0 8 * * *\" \"0 20 * * *\" mni=2"}, {"schedule": "a UTC \"0 8 * * *\" \"0 20 * * *\" two"},
	{"schedule": "a UTC \"0 8 * * *\" \"0 20 * * *\" min=2 lead=x"}, {"schedule": "a UTC \"0 8 * * *\" \"0 20 * * *\""},
	{"schedule": strings.Repeat("a UTC \"0 8 * * *\" \"0 20 * * *\" min=2\n", 16)},
	{"schedule": strings.Repeat("a UTC \"0 8 * * *\" \"0 20 * * *\" min=2\n", 17)},
	{"spec": "cooldownPeriod: 3m"}, {"spec": ""}, {"spec": "# nothing"}, {"spec": "3"}, {"spec": "mode: [hold]"}, {"spec": "{"},
	{"spec": "activate: true"}, {"spec": "activate: false"}, {"spec": "minReplicas: 1"}, {"spec": "maxReplicas: 1"},
	{"spec": "scaleTargetRef: {name: x}"}, {"spec": "mode: hold", "mode": "advisory"},
	{"spec": "signals: [{name: queue, type: vllm, target: 3}]", "queue-source": "-", "queue-depth-per-replica": "6"},
	{"spec": "signals: [{name: queue, type: vllm, target: 3}]", "queue-depth-per-replica": "-"},
	{"spec": "signals: [{name: kv, type: vllm, metric: kvCacheUsage, target: 180%}]"},
	{"spec": "schedules: [{name: a, timezone: UTC, start: '0 8 * * *', end: '0 20 * * *', minReplicas: 20}]"},
	{"spec": "signals: [" + strings.Repeat("{name: a, type: vllm, target: 3}, ", 8) + "]"},
	{"spec": "signals: [" + strings.Repeat("{name: a, type: vllm, target: 3}, ", 9) + "]"},
	{"spec": "schedules: [" + strings.Repeat("{name: a, timezone: UTC, start: '0 8 * * *', end: '0 20 * * *', minReplicas: 2}, ", 17) + "]"},
	{"policy": "other"}, {"policy": "Other"}, {"policy": "base"}, {"policy": "base", "queue-source": "-", "queue-depth-per-replica": "4"},
	{"policy": "base", "queue-source": "-", "queue-depth-per-replica": "-"}, {"policy": "none", "queue-source": "-",
		"queue-depth-per-replica": "-"},
	{"queue-depth": "7"}, {"paused": "true", "last-decision": "x"},
}

// The golden file contains for each object its problems, and the differences of its policy from the policy of the base object.
func TestEachAnnotationHasItsEffect(t *testing.T) {
	var out strings.Builder
	var base map[string]string
	for i, changes := range annotationValues {
		policies, _ := storeWith(t, strings.Replace(simple("base", 3), "name: queue, type: vllm", "name: queue, type: triton", 1))
		object := scaledObject(map[string]string{})
		object.MinReplicas, object.Metadata = 1, map[string]string{}
		values := maps.Clone(annotationValues[0])
		maps.Copy(values, changes)
		for key, value := range values {
			switch inner, isMetadata := strings.CutPrefix(key, "metadata/"); {
			case value == "-":
			case isMetadata:
				object.Metadata[inner] = value
			default:
				object.Annotations["gpuscaler.io/"+key] = value
			}
		}
		for _, key := range slices.Sorted(maps.Keys(changes)) {
			fmt.Fprintf(&out, "%s: %.90q\n", key, changes[key])
		}
		for _, p := range setObject(policies, object) {
			fmt.Fprintf(&out, "  %s\n", p)
		}
		compiled := map[string]string{}
		for _, w := range policies.Current() {
			if w.Key.Name != "base" || w.Policy.MaxReplicas != 3 {
				flatten(compiled, "policy", reflect.ValueOf(policies.Find(w.Key)))
			}
		}
		if i == 0 {
			base = compiled
		} else if len(compiled) == 0 {
			out.WriteString("  not in force\n")
			continue
		}
		for _, line := range change(base, compiled) {
			fmt.Fprintf(&out, "    %s\n", line)
		}
	}
	golden.Compare(t, "testdata/annotations.txt", out.String())
}

// A problem in the policy of an object must contain the object and the annotation. This test uses an HPA.
func TestProblemsOfAnHPANameIt(t *testing.T) {
	policies, _ := storeWith(t)
	object := scaledObject(map[string]string{"gpuscaler.io/mode": "off", "gpuscaler.io/spec": "minReplicas: 2"})
	object.Kind = "HorizontalPodAutoscaler"
	var got []string
	for _, p := range setObject(policies, object) {
		got = append(got, p.File+" "+p.Field)
	}
	want := []string{"HorizontalPodAutoscaler team-chat/llama metadata.annotations[gpuscaler.io/mode]",
		"HorizontalPodAutoscaler team-chat/llama metadata.annotations[gpuscaler.io/spec].minReplicas"}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("%q, want %q", got, w)
		}
	}
	if st := state(policies, "HorizontalPodAutoscaler team-chat/llama"); st.State != store.Refused {
		t.Errorf("%+v", st)
	}
}
