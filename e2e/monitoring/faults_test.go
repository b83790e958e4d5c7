package monitoring

import (
	"slices"
	"strings"
	"testing"
)

const (
	busyGPU = `{exported_namespace="team",exported_pod="chat-1",namespace="gpu-operator",pod="nvidia-dcgm-exporter-a",UUID="GPU-1",` +
		`Hostname="n1",modelName="L40S"}`
	freeGPU = `{namespace="gpu-operator",pod="nvidia-dcgm-exporter-a",UUID="GPU-2",Hostname="n1",modelName="L40S"}`
	miGPU   = `{exported_namespace="team",exported_pod="mig-1",namespace="gpu-operator",pod="nvidia-dcgm-exporter-b",UUID="GPU-3",` +
		`GPU_I_ID="7",Hostname="n2",modelName="H100"}`
	honored = `{namespace="lab",pod="train-1",UUID="GPU-4",hostname="n3",modelName="A100"}`
	blank   = `{exported_namespace="team",exported_pod="old-1",namespace="gpu-operator",pod="nvidia-dcgm-exporter-c",UUID="GPU-5",` +
		`Hostname="n4",modelName="K80"}`

	chat  = `{namespace="team",policy="chat"}`
	group = `{group="chat"}`
)

// healthy contains the series of a cluster without a fault: a busy inference server, a free GPU, a MIG slice, a training job, a GPU whose
// counters report DCGM's blank value, and a capacity group with a finding of severity info. No alert must fire.
var healthy = input{
	"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + busyGPU: "0.7x300", "DCGM_FI_DEV_GPU_UTIL" + busyGPU: "92x300",
	"DCGM_FI_DEV_FB_USED" + busyGPU: "41000x300", "DCGM_FI_DEV_FB_FREE" + busyGPU: "4068x300", "DCGM_FI_DEV_GPU_TEMP" + busyGPU: "71x300",
	"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + freeGPU: "0x300", "DCGM_FI_DEV_GPU_UTIL" + freeGPU: "0x300", "DCGM_FI_DEV_GPU_TEMP" + freeGPU: "33x300",
	"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + miGPU: "0.5x300", "DCGM_FI_DEV_GPU_UTIL" + miGPU: "0x300",
	"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL" + honored: "0+900x300", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL" + busyGPU: "0x300",
	"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + honored: "0.95x300", "DCGM_FI_DEV_GPU_UTIL" + honored: "99x300",
	"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + blank: "9223372036854775794x300", "DCGM_FI_DEV_GPU_TEMP" + blank: "9223372036854775794x300",
	"DCGM_FI_DEV_GPU_UTIL" + blank:                                          "60x300",
	`kube_pod_owner{namespace="team",pod="chat-1",owner_kind="ReplicaSet"}`: "1x300",
	`kube_pod_owner{namespace="lab",pod="train-1",owner_kind="Job"}`:        "1x300",

	"gpuscaler_policy_degraded" + chat: "0x300", "gpuscaler_policy_target_not_found" + chat: "0x300",
	"gpuscaler_target_replicas" + chat: "3x300", "gpuscaler_current_replicas" + chat: "3x300",
	"gpuscaler_objective_missing_replicas" + chat: "0x300",
	"gpuscaler_pending_replicas" + chat:           "0x300", "gpuscaler_loading_replicas" + chat: "0x300",
	"gpuscaler_decision_timestamp_seconds" + chat:                                   "0+60x300",
	`gpuscaler_policy_document{document="chat",file="chat.yaml",state="InForce"}`:   "1x300",
	`gpuscaler_source_polls_total{source="prom",poll="query",result="ok"}`:          "0+4x300",
	`gpuscaler_source_polls_total{source="prom",poll="query",result="unreachable"}`: "0+0x300",
	`gpuscaler_hpa_findings{what="tolerance"}`:                                      "0x300",

	"gpuscaler_group_failing" + group: "0x300", `gpuscaler_source_clock_skew_seconds{source="prom",poll="query"}`: "3x300",
	"gpuscaler_group_constrained_replicas" + group:                                       "0x300",
	`gpuscaler_group_finding{group="chat",nodepool="spot",finding="never-consolidated"}`: "1x300",
	`gpuscaler_group_phase{group="chat",phase="prefer spot"}`:                            "1x300",
	`gpuscaler_leader{instance="a"}`:                                                     "1x300",
	`gpuscaler_leader{instance="b"}`:                                                     "0x300",
	`gpuscaler_apiservice_conflict{instance="a"}`:                                        "0x300",
	`gpuscaler_tick_failures_total{instance="a"}`:                                        "0x300",
	`gpuscaler_activations_total{instance="a",direction="up",result="failed"}`:           "0x300",
	`gpuscaler_activations_total{instance="a",direction="up",result="written"}`:          "0+1x300",
	`gpuscaler_activations_total{instance="a",direction="up",result="conflict"}`:         "0+1x300",
	`gpuscaler_node_writes_total{instance="a",object="nodepool",result="failed"}`:        "0x300",
	`gpuscaler_node_writes_total{instance="a",object="nodepool",result="written"}`:       "0+5x300",
	`gpuscaler_node_writes_total{instance="a",object="nodepool",result="conflict"}`:      "0+1x300",
	`gpuscaler_events_lost_total{instance="a"}`:                                          "0x300",
	`gpuscaler_recording_failed{instance="a"}`:                                           "0x300",
}

// nvlinkRate is one hour of samples of an NVLink field that is a rate and not a counter. The values vary around 1000.
var nvlinkRate = strings.Repeat("900 1100 ", 30)

// faults contains the tested faults. Each fault changes series of `healthy` after one hour. quiet and loud are minutes from the start of
// the series. At the minute quiet, the alert must not fire. At the minute loud, the alert and the alerts in `also` must fire, and no other
// alert.
var faults = []struct {
	alert       string
	quiet, loud int
	fault       map[string]string
	also        []string
}{
	{"GPUIdle", 70, 80, map[string]string{"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + busyGPU: "0.7x60 0.01x240",
		"DCGM_FI_DEV_GPU_UTIL" + busyGPU: "92x60 2x240"}, nil},
	{"GPUIdle", 70, 80, map[string]string{"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + miGPU: "0.5x60 0x240"}, nil},
	{"GPUIdle", 70, 80, map[string]string{"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + busyGPU: "0.7x60 0.08x240",
		"DCGM_FI_DEV_GPU_UTIL" + busyGPU: "92x60 9x240"}, nil},
	{"GPUMemoryGrowing", 160, 225, map[string]string{ // the memory grows by 5% in an hour
		"DCGM_FI_DEV_FB_USED" + busyGPU: "20000x60 20000+38x240", "DCGM_FI_DEV_FB_FREE" + busyGPU: "25068x60 25068-38x240"}, nil},
	{"NCCLStalled", 74, 85, map[string]string{"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL" + honored: "0+900x60 54000x240"}, nil},  // a counter
	{"NCCLStalled", 74, 85, map[string]string{"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL" + honored: nvlinkRate + " 0x240"}, nil}, // a rate
	{"NCCLStalled", 74, 85, map[string]string{"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL" + honored: "",
		"DCGM_FI_PROF_NVLINK_TX_BYTES" + honored: "0+9e9x60 540e9x240"}, nil},
	{"GPUUnderused", 60, 150, map[string]string{"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + busyGPU: "0.7x60 0.2x240"}, nil},
	{"GPUUnderused", 110, 140, map[string]string{ // the alert does not consider pods in their first hour
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + busyGPU: "_x60 0.2x240", "DCGM_FI_DEV_GPU_UTIL" + busyGPU: "_x60 60x240"}, nil},
	{"GPUMemoryFull", 70, 80, map[string]string{"DCGM_FI_DEV_FB_FREE" + busyGPU: "4068x60 500x240"}, nil},
	{"GPUHot", 62, 70, map[string]string{"DCGM_FI_DEV_GPU_TEMP" + freeGPU: "33x60 91x240"}, nil},
	{"TrainingStalled", 75, 90, map[string]string{"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + honored: "0.95x60 0x240",
		"DCGM_FI_DEV_GPU_UTIL" + honored: "99x60 0x240"}, []string{"GPUIdle"}},
	{"GPUCounterStuck", 80, 95, map[string]string{"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + busyGPU: "0.7x60 0x240"}, nil},

	{"SignalLost", 68, 72, map[string]string{"gpuscaler_policy_degraded" + chat: "0x60 1x240"}, nil},
	{"SourceDown", 66, 75, map[string]string{
		`gpuscaler_source_polls_total{source="prom",poll="query",result="ok"}`: "0+4x60 " +
			"240+0x240", `gpuscaler_source_polls_total{source="prom",poll="query",result="unreachable"}`: "0+0x60 0+4x240"}, nil},
	{"SourceDown", 64, 75, map[string]string{`gpuscaler_source_polls_total{source="redis",poll="list",result="forbidden"}`: "_x60 0+4x240"},
		nil}, // the source has never had a successful poll
	{"ClockSkewed", 68, 72, map[string]string{`gpuscaler_source_clock_skew_seconds{source="prom",poll="query"}`: "0x60 -45x240"}, nil},
	{"TargetNotFound", 68, 72, map[string]string{"gpuscaler_policy_target_not_found" + chat: "0x60 1x240"}, nil},
	{"TargetNotApplied", 70, 80, map[string]string{"gpuscaler_target_replicas" + chat: "3x60 5x240"}, nil},
	{"ObjectiveNotAttainable", 85, 95, map[string]string{"gpuscaler_objective_missing_replicas" + chat: "0x60 2x240"}, nil},
	{"ActivationFailing", 64, 70, map[string]string{
		`gpuscaler_activations_total{instance="a",direction="up",result="failed"}`: "0x60 0+1x240"}, nil},
	{"ReplicasNotReady", 80, 97, map[string]string{"gpuscaler_pending_replicas" + chat: "0x60 2x240"}, nil},
	{"ReplicasCrashing", 68, 72, map[string]string{"gpuscaler_crashing_replicas" + chat: "0x60 2x240"}, nil},
	{"PodsRejected", 68, 72, map[string]string{
		`gpuscaler_rejected_replicas{namespace="team-chat",policy="llama-chat",kind="ResourceQuota",name="gpus"}`: "_x60 3x240"}, nil},
	{"PolicyRefused", 63, 70, map[string]string{
		`gpuscaler_policy_document{document="chat",file="chat.yaml",state="InForce"}`: "1x60 " +
			"_x240", `gpuscaler_policy_document{document="chat",file="chat.yaml",state="LastValid"}`: "_x60 1x240"}, nil},
	{"HPANotExact", 80, 95, map[string]string{`gpuscaler_hpa_findings{what="tolerance"}`: "0x60 2x240"}, nil},

	{"CapacityConstrained", 70, 80, map[string]string{"gpuscaler_group_constrained_replicas" + group: "0x60 2x240"}, nil},
	{"GroupFailing", 63, 67, map[string]string{"gpuscaler_group_failing" + group: "0x60 1x240"}, nil},
	{"OverrideConflict", 59, 62, map[string]string{`gpuscaler_group_finding{group="chat",nodepool="spot",finding="contested"}`: "_x60 1x240"},
		nil},
	{"NodeWritesFailing", 69, 75, map[string]string{
		`gpuscaler_node_writes_total{instance="a",object="nodepool",result="failed"}`: "0x60 0+5x240"}, nil},
	{"SpotUnavailable", 110, 125, map[string]string{
		`gpuscaler_group_phase{group="chat",phase="prefer spot"}`: "1x60 " +
			"_x240", `gpuscaler_group_phase{group="chat",phase="fallback"}`: "_x60 1x240"}, nil},
	{"SpotUnavailable", 110, 125, map[string]string{ // probes of spot capacity do not restart the hour after which the alert fires
		`gpuscaler_group_phase{group="chat",phase="prefer spot"}`: "1x60 _x240",
		`gpuscaler_group_phase{group="chat",phase="fallback"}`:    "_x60 1x15 _x20 1x15 _x190",
		`gpuscaler_group_phase{group="chat",phase="probing"}`:     "_x76 1x18 _x16 1x190"}, nil},

	{"NoLeader", 61, 65, map[string]string{`gpuscaler_leader{instance="a"}`: "1x60 0x240"}, nil},
	{"NoLeader", 60, 75, map[string]string{`gpuscaler_leader{instance="a"}`: "1x60 _x240", `gpuscaler_leader{instance="b"}`: "0x60 _x240"},
		nil}, // no replica of gpuscaler exists
	{"TwoLeaders", 61, 65, map[string]string{`gpuscaler_leader{instance="b"}`: "0x60 1x240"}, nil},
	{"APIServiceConflict", 60, 63, map[string]string{`gpuscaler_apiservice_conflict{instance="a"}`: "0x60 1x240"}, nil},
	{"DecisionsStale", 61, 65, map[string]string{"gpuscaler_decision_timestamp_seconds" + chat: "0+60x60 3600x240"}, nil},
	{"TicksFailing", 66, 85, map[string]string{`gpuscaler_tick_failures_total{instance="a"}`: "0x60 0+60x240"}, nil},
	{"EventsLost", 70, 85, map[string]string{`gpuscaler_events_lost_total{instance="a"}`: "0x60 0+3x240"}, nil},
	{"RecordingFailed", 64, 67, map[string]string{`gpuscaler_recording_failed{instance="a"}`: "0x60 1x240"}, nil},
}

func TestNoAlertFiresWithoutAFault(t *testing.T) {
	for i, names := range firing(t, healthy, 30, 90, 150, 240) {
		if len(names) > 0 {
			t.Errorf("look %d: %v", i, names)
		}
	}
}

func TestEachAlertFiresOnlyForItsFault(t *testing.T) {
	tried := map[string]bool{}
	for _, f := range faults {
		tried[f.alert] = true
		t.Run(f.alert, func(t *testing.T) {
			t.Parallel()
			seen := firing(t, healthy.with(f.fault), f.quiet, f.loud)
			if slices.Contains(seen[0], f.alert) {
				t.Errorf("the alert fires already at %d min", f.quiet)
			}
			want := append([]string{f.alert}, f.also...)
			slices.Sort(want)
			if !slices.Equal(seen[1], want) {
				t.Errorf("at %d min: %v fire, want %v", f.loud, seen[1], want)
			}
		})
	}
	for _, a := range alerts(t) {
		if !tried[runbook(a.Name())] {
			t.Errorf("no fault makes %s fire", a.Name())
		}
	}
}

// If an inference server has no requests, the activity of its GPU is 0, as in a training job that hangs. For the inference server, only the
// alert GPUIdle must fire.
func TestIdleServerIsNotAStalledTraining(t *testing.T) {
	w := healthy.with(map[string]string{"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + busyGPU: "0.7x60 0x240",
		"DCGM_FI_DEV_GPU_UTIL" + busyGPU: "92x60 0x240"})
	if got := firing(t, w, 90)[0]; !slices.Equal(got, []string{"GPUIdle"}) {
		t.Errorf("%v fire", got)
	}
}

// A counter that is stuck at zero must not make a busy GPU look idle.
func TestBusyGPUWithAStuckCounterIsNotIdle(t *testing.T) {
	w := healthy.with(map[string]string{"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + busyGPU: "0x300"})
	if got := firing(t, w, 90)[0]; slices.Contains(got, "GPUIdle") || !slices.Contains(got, "GPUCounterStuck") {
		t.Errorf("%v fire", got)
	}
}

// The alert about growing memory must not fire for memory that is allocated once, or that increases and decreases.
func TestMemoryThatReachesAPlateauDoesNotGrow(t *testing.T) {
	for name, values := range map[string]string{
		"a second model": "20000x60 35000x240",
		"a sawtooth":     strings.Repeat("20000+300x29 ", 10),
		"a cache fills":  "20000x60 20000+200x60 32000x180",
	} {
		w := healthy.with(map[string]string{"DCGM_FI_DEV_FB_USED" + busyGPU: values, "DCGM_FI_DEV_FB_FREE" + busyGPU: "25068x300"})
		for i, names := range firing(t, w, 120, 180, 210, 240, 290) {
			if slices.Contains(names, "GPUMemoryGrowing") {
				t.Errorf("%s: look %d fires", name, i)
			}
		}
	}
}

// The alert NCCLStalled must not fire for a training job whose NVLink traffic stops while its GPU is mostly idle. It must also not fire for
// a busy GPU that never had NVLink traffic.
func TestBusyPodWithoutNVLinkIsNotAStalledCollective(t *testing.T) {
	w := healthy.with(map[string]string{
		"DCGM_FI_DEV_GPU_UTIL" + busyGPU:               "99x300",
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + busyGPU:      "0.95x300",
		"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL" + honored: "0+900x60 54000x240",
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + honored:      "0.95x60 0.3x240",
		"DCGM_FI_DEV_GPU_UTIL" + honored:               "99x60 40x240",
	})
	if got := firing(t, w, 90)[0]; slices.Contains(got, "NCCLStalled") {
		t.Errorf("%v fire", got)
	}
}

// A pod of a tenant serves GPU metrics with the labels of a pod of another namespace. Prometheus renames these labels to exported_namespace
// and exported_pod, and sets the label namespace to the namespace of the scraped pod. The alerts must trust such series only from the DCGM
// exporter's namespace: no alert about the other pod may fire, and no false value may hide a true value. If the exporter serves the same
// series, the alerts must fire.
func TestScrapedPodCannotReportAboutAnotherPod(t *testing.T) {
	claims := func(reporter string) map[string]string {
		pod := `{exported_namespace="team",exported_pod="chat-1",` + reporter + `,UUID="GPU-9",Hostname="n1",modelName="L40S"}`
		return map[string]string{"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + pod: "0.9x60 0x240", "DCGM_FI_DEV_GPU_UTIL" + pod: "95x60 95x240",
			"DCGM_FI_DEV_FB_USED" + pod: "20000x60 44900x240", "DCGM_FI_DEV_FB_FREE" + pod: "25068x60 68x240",
			"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL" + pod: "0+900x60 54000x240"}
	}
	tenant := `namespace="evil",pod="nvidia-dcgm-exporter-x"`
	if got := firing(t, healthy.with(claims(tenant)), 95)[0]; len(got) > 0 {
		t.Errorf("%v fire by the claims of another tenant", got)
	}
	exporter := `namespace="gpu-operator",pod="nvidia-dcgm-exporter-d"`
	if got := firing(t, healthy.with(claims(exporter)), 95)[0]; !slices.Contains(got, "GPUMemoryFull") {
		t.Errorf("%v fire by the same values of the exporter, want GPUMemoryFull", got)
	}
	idle := healthy.with(map[string]string{"DCGM_FI_PROF_GR_ENGINE_ACTIVE" + busyGPU: "0.7x60 0.01x240",
		"DCGM_FI_DEV_GPU_UTIL" + busyGPU: "92x60 2x240"}).with(claims(tenant))
	if got := firing(t, idle, 80)[0]; !slices.Equal(got, []string{"GPUIdle"}) {
		t.Errorf("%v fire while another tenant claims that the pod is busy, want GPUIdle", got)
	}
}

// A pod other than the DCGM exporter serves a GPU temperature. Prometheus sets the label namespace to the namespace of the scraped pod, so
// an alert about the temperature must name this pod.
func TestReportedTemperatureNamesTheReporter(t *testing.T) {
	false91 := `DCGM_FI_DEV_GPU_TEMP{namespace="evil",pod="evil-0",UUID="GPU-1",Hostname="n1",modelName="L40S"}`
	for reporter, series := range map[string]string{"evil/evil-0": false91, "": "DCGM_FI_DEV_GPU_TEMP" + freeGPU} {
		w := healthy.with(map[string]string{series: "33x60 91x240"})
		var said []string
		for _, a := range firingAlerts(t, w, 75) {
			said = append(said, a.Labels.Get("alertname")+" "+a.Annotations.Get("summary"))
		}
		if len(said) != 1 || !strings.HasPrefix(said[0], "GpuscalerGPUHot ") || strings.Contains(said[0], "evil/evil-0") != (reporter != "") {
			t.Errorf("%q fire, want GPUHot by %q", said, reporter)
		}
	}
}
