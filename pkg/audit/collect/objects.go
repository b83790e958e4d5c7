package collect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/pkg/audit"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
)

const gpuResource = corev1.ResourceName("nvidia.com/gpu")

// defaultWindow is the scale-down window of an HPA, and the cooldown of a ScaledObject, if the manifest does not set it. It is in seconds.
const defaultWindow = 300

// Workloads returns the workloads that request nvidia.com/gpu and are scaled by one of the autoscalers (HPAs and ScaledObjects). The
// parameter targets contains the Deployments and StatefulSets. Workloads returns a Gap for each autoscaler whose target is of another
// kind or does not exist, whose target another autoscaler scales too, or that has a malformed field.
func Workloads(autoscalers, targets []*unstructured.Unstructured) (out []audit.Workload, gaps []audit.Gap) {
	byKey := map[string]*unstructured.Unstructured{}
	for _, t := range targets {
		byKey[t.GetKind()+"/"+t.GetNamespace()+"/"+t.GetName()] = t
	}
	taken := map[string]bool{}
	for _, u := range autoscalers {
		a, kind, name, malformed, noSchedule := autoscaler(u)
		if malformed != "" && name == "" {
			gaps = append(gaps, malformedGap(u, malformed))
			continue
		}
		key := kind + "/" + u.GetNamespace() + "/" + name
		target := byKey[key]
		if target == nil {
			gaps = append(gaps, audit.Gap{
				What: fmt.Sprintf("%s %s/%s", a.Kind, u.GetNamespace(), a.Name), Why: fmt.Sprintf("its target %s %s was not found", kind, name),
				Next: "only Deployments and StatefulSets are audited"})
			continue
		}
		w := audit.Workload{Namespace: u.GetNamespace(), Name: name, Kind: kind, Autoscaler: a}
		if w.GPUs, w.Slots = template(target); w.GPUs == 0 {
			continue
		}
		if malformed != "" {
			gaps = append(gaps, malformedGap(u, malformed))
			continue
		}
		if w.Slots > 0 {
			w.SlotsFrom = "--max-num-seqs"
		}
		if taken[w.Key()] {
			gaps = append(gaps, audit.Gap{What: fmt.Sprintf("%s %s/%s", a.Kind, u.GetNamespace(), a.Name),
				Why: "another autoscaler scales " + w.Key() + " too", Next: "delete one of them"})
			continue
		}
		taken[w.Key()] = true
		if noSchedule != "" {
			gaps = append(gaps, audit.Gap{What: "a schedule of " + w.Key(), Why: noSchedule,
				Next: "correct the trigger; the replicas of the schedule are assigned to other causes"})
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b audit.Workload) int { return cmp.Compare(a.Key(), b.Key()) })
	return out, gaps
}

// malformedGap returns the gap of an autoscaler that has a malformed field. With a default value instead of this field, the result would
// be wrong.
func malformedGap(u *unstructured.Unstructured, malformed string) audit.Gap {
	return audit.Gap{What: fmt.Sprintf("%s %s/%s", u.GetKind(), u.GetNamespace(), u.GetName()), Why: malformed,
		Next: "correct the object and audit again"}
}

// autoscaler returns the settings of an HPA or a ScaledObject, and its target. If a field cannot be read, malformed is the reason, and the
// settings are not complete. If a schedule is invalid, noSchedule is the reason.
func autoscaler(u *unstructured.Unstructured) (a audit.Autoscaler, kind, name, malformed, noSchedule string) {
	a = audit.Autoscaler{Kind: u.GetKind(), Name: u.GetName(), Cooldown: defaultWindow}
	if u.GetKind() == "HorizontalPodAutoscaler" {
		kind, name, malformed = hpa(u, &a)
	} else {
		kind, name, malformed, noSchedule = scaledObject(u, &a)
	}
	a.Min = max(0, a.Min)
	a.Max = min(max(a.Max, a.Min), 1e6)
	a.Cooldown = min(max(a.Cooldown, 0), 7*86400)
	return a, kind, name, malformed, noSchedule
}

func hpa(u *unstructured.Unstructured, a *audit.Autoscaler) (kind, name, malformed string) {
	var h autoscalingv2.HorizontalPodAutoscaler
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &h); err != nil {
		return "", "", "it is not a valid HPA of autoscaling/v2"
	}
	a.Min, a.Max = 1, int(h.Spec.MaxReplicas)
	if h.Spec.MinReplicas != nil {
		a.Min = int(*h.Spec.MinReplicas)
	}
	if b := h.Spec.Behavior; b != nil && b.ScaleDown != nil && b.ScaleDown.StabilizationWindowSeconds != nil {
		a.Cooldown = float64(*b.ScaleDown.StabilizationWindowSeconds)
	}
	for _, m := range h.Spec.Metrics {
		a.Metrics = append(a.Metrics, strings.TrimSpace(string(m.Type)+" "+metricName(m)))
	}
	return h.Spec.ScaleTargetRef.Kind, h.Spec.ScaleTargetRef.Name, ""
}

func metricName(m autoscalingv2.MetricSpec) string {
	switch {
	case m.Pods != nil:
		return m.Pods.Metric.Name
	case m.External != nil:
		return m.External.Metric.Name
	case m.Object != nil:
		return m.Object.Metric.Name
	case m.Resource != nil:
		return string(m.Resource.Name)
	case m.ContainerResource != nil:
		return string(m.ContainerResource.Name)
	}
	return ""
}

// scaledObject reads the fields of a ScaledObject that the audit uses. Of a trigger, it reads only the type and the schedule of a cron
// trigger, because other metadata can contain addresses, queries and credentials. If the schedule of a cron trigger is invalid,
// noSchedule is the reason. A number that is absent has KEDA's default value.
func scaledObject(u *unstructured.Unstructured, a *audit.Autoscaler) (kind, name, malformed, noSchedule string) {
	number := func(otherwise int64, path ...string) int {
		v, found, err := unstructured.NestedInt64(u.Object, append([]string{"spec"}, path...)...)
		switch {
		case err != nil || found && v < 0:
			malformed = cmp.Or(malformed, "spec."+strings.Join(path, ".")+" is not a whole number of at least 0")
		case found:
			return int(v)
		}
		return int(otherwise)
	}
	a.Min, a.Max = number(0, "minReplicaCount"), number(100, "maxReplicaCount")
	window := number(defaultWindow, "advanced", "horizontalPodAutoscalerConfig", "behavior", "scaleDown", "stabilizationWindowSeconds")
	a.Cooldown = float64(window)
	if a.Min == 0 {
		// cooldownPeriod delays the removal of the last replica; the window delays the removal of the other replicas. Cooldown is the longer of
		// the two times.
		a.Cooldown = float64(max(window, number(defaultWindow, "cooldownPeriod")))
	}
	triggers, _, _ := unstructured.NestedSlice(u.Object, "spec", "triggers")
	for _, t := range triggers {
		trigger, is := t.(map[string]any)
		if !is {
			continue
		}
		of, _, _ := unstructured.NestedString(trigger, "type")
		a.Metrics = append(a.Metrics, triggerType(of))
		if of != "cron" {
			continue
		}
		m, _, _ := unstructured.NestedStringMap(trigger, "metadata")
		n, _ := strconv.Atoi(m["desiredReplicas"])
		if _, err := baseline.NewCron(m["timezone"], m["start"], m["end"], 1); err != nil {
			noSchedule = "a cron trigger has no valid timezone, start and end" // the message omits the values, which can be any text
			continue
		}
		a.Schedules = append(a.Schedules, audit.Schedule{
			Timezone: m["timezone"], Start: m["start"], End: m["end"], Replicas: min(max(n, 0), 1e6)})
	}
	ref, _, _ := unstructured.NestedStringMap(u.Object, "spec", "scaleTargetRef")
	return cmp.Or(ref["kind"], "Deployment"), ref["name"], malformed, noSchedule
}

// triggerType returns the type of a trigger. It returns "unknown" if the text is not a DNS label, because KEDA's types are DNS labels.
func triggerType(text string) string {
	if len(text) > 63 || len(validation.IsDNS1123Label(text)) > 0 {
		return "unknown"
	}
	return text
}

// template returns the number of GPUs that a pod of a Deployment or StatefulSet requests, and the number of requests that its vLLM server
// serves at the same time (--max-num-seqs; 0 if it is not set).
func template(u *unstructured.Unstructured) (gpus int, slots float64) {
	raw, _, _ := unstructured.NestedMap(u.Object, "spec", "template")
	var pod corev1.PodTemplateSpec
	if runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &pod) != nil {
		return 0, 0
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		n := c.Resources.Limits[gpuResource]
		if n.IsZero() {
			n = c.Resources.Requests[gpuResource]
		}
		gpus += int(min(max(n.Value(), 0), 64))
		slots = max(slots, maxSequences(append(slices.Clone(c.Command), c.Args...)))
	}
	return gpus, slots
}

// maxSequences returns the value of vLLM's --max-num-seqs in the arguments of a container.
func maxSequences(args []string) float64 {
	words := strings.Fields(strings.Join(args, " "))
	for i, word := range words {
		name, value, inline := strings.Cut(word, "=")
		if name != "--max-num-seqs" && name != "--max_num_seqs" {
			continue
		}
		if !inline && i+1 < len(words) {
			value = words[i+1]
		}
		if n, err := strconv.Atoi(strings.Trim(value, `"'`)); err == nil && n > 0 && n <= 1e6 {
			return float64(n)
		}
	}
	return 0
}
