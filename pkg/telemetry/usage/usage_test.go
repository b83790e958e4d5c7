package usage

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/config"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/history"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promtest"
)

const chatGPU = `gpu="0",UUID="GPU-1",modelName="NVIDIA L40S",Hostname="ip-1.ec2.internal",namespace="gpu-operator",` +
	`pod="nvidia-dcgm-exporter-x",exported_namespace="chat",exported_pod="llama-7d9f8b6c5d-abcde"`

// karpenterNode describes an on-demand node of type g6e.12xlarge, with the metrics of Karpenter and its AWS provider.
const karpenterNode = `
karpenter_nodes_allocatable{node_name="ip-1.ec2.internal",nodepool="l40s",instance_type="g6e.12xlarge",capacity_type="on-demand",` +
	`zone="us-east-1a",resource_type="nvidia.com/gpu"} 4x60
karpenter_cloudprovider_instance_type_offering_price_estimate{instance_type="g6e.12xlarge",capacity_type="on-demand",` +
	`zone="us-east-1a"} 12x60
karpenter_cloudprovider_instance_type_offering_price_estimate{instance_type="g6e.12xlarge",capacity_type="on-demand",` +
	`zone="us-east-1b"} 99x60
`

func hourOf(t *testing.T, o Options, ledger cost.Options, series string) (*cost.Bill, []string, error) {
	t.Helper()
	if o.Exporter == nil {
		o.Exporter = inGPUOperator
	}
	o.From, o.To, o.Step = time.Unix(0, 0), time.Unix(3600, 0), 5*time.Minute
	ledger.Resolution = 15 * time.Minute
	l := cost.NewLedger(ledger)
	_, server := serve(t, series)
	notes, err := Read(t.Context(), server, o, l)
	return l.Bill(cost.Period{From: o.From, To: o.To, Step: o.Step, Idle: 30 * time.Minute}), notes, err
}

// serve returns a server with the given series, and a client for it.
func serve(t *testing.T, series string) (*promtest.Server, *history.Server) {
	t.Helper()
	s := promtest.Serve(t, time.Unix(0, 0), series)
	client, err := history.Open(s.URL, config.DefaultHTTPClientConfig, history.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return s, client
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6*max(1, math.Abs(b)) }

func want(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !near(got, want) {
		t.Errorf("%s is %g, want %g", what, got, want)
	}
}

func TestAnHourOfAGPUIsReadWithItsWorkloadItsNodeAndKarpentersPrice(t *testing.T) {
	b, notes, err := hourOf(t, Options{}, cost.Options{}, `
DCGM_FI_PROF_GR_ENGINE_ACTIVE{`+chatGPU+`} 0.25x60
DCGM_FI_DEV_GPU_UTIL{`+chatGPU+`} 90x60
DCGM_FI_DEV_FB_USED{`+chatGPU+`} 40000x60
DCGM_FI_DEV_FB_FREE{`+chatGPU+`} 6068x60
kube_pod_info{namespace="chat",pod="llama-7d9f8b6c5d-abcde",node="ip-1.ec2.internal",created_by_kind="ReplicaSet",`+
		`created_by_name="llama-7d9f8b6c5d"} 1x60
`+karpenterNode)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Lines) != 1 || b.Workloads[0].Name != "chat/llama" || b.Lines[0].InstanceType != "g6e.12xlarge" ||
		b.Lines[0].CapacityType != "on-demand" {
		t.Fatalf("lines %+v", b.Lines)
	}
	// The node has four GPUs, but only its instance type shows this, and the test has no list of instance types. Only one GPU has samples, so
	// this GPU is charged the full price of the node.
	want(t, "cost", b.Total.Cost, 12)
	want(t, "idle", b.Total.IdleByActivity, 9)
	want(t, "GPU-hours", b.Total.GPUHours, 1)
	if len(b.Prices) != 1 || b.Prices[0].From != "Karpenter" || len(notes) != 1 {
		t.Errorf("prices %+v, notes %v", b.Prices, notes)
	}
}

func TestGPUsOfThePriceListShareTheNodesPriceAndUnreportedOnesAreUnmeasured(t *testing.T) {
	book := cost.NewBook([]cost.Type{{Name: "g6e.12xlarge", Region: "us-east-1", GPUs: 4, Hourly: map[string]float64{cost.OnDemand: 10}}},
		nil, nil)
	b, _, err := hourOf(t, Options{NoPrices: true}, cost.Options{Book: book},
		`DCGM_FI_PROF_GR_ENGINE_ACTIVE{`+chatGPU+`} 0.5x60`+karpenterNode)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "cost", b.Total.Cost, 10)
	want(t, "unmeasured", b.Total.Unmeasured, 7.5)
	want(t, "idle", b.Total.Idle(), 1.25)
	if b.Prices[0].From != "price book" {
		t.Errorf("prices %+v", b.Prices)
	}
}

func TestGPUCountOfKarpenterTakesPrecedence(t *testing.T) {
	b, _, err := hourOf(t, Options{}, cost.Options{}, `DCGM_FI_PROF_GR_ENGINE_ACTIVE{`+chatGPU+`} 0.5x60`+
		strings.ReplaceAll(karpenterNode, `nodepool="l40s",`, `nodepool="l40s",instance_gpu_count="4",`))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "cost", b.Total.Cost, 12)
	want(t, "the held GPU's", b.Namespaces[0].Cost, 3)
	want(t, "unmeasured", b.Total.Unmeasured, 9)
}

// A node boots for 20 minutes of the hour. Its GPUs have no samples in this time. These 20 minutes must be charged, but their activity is
// unknown.
func TestNodeThatBootsIsPaidForAndUnmeasured(t *testing.T) {
	b, _, err := hourOf(t, Options{}, cost.Options{}, `DCGM_FI_PROF_GR_ENGINE_ACTIVE{`+chatGPU+`} _x20 1x40`+karpenterNode)
	if err != nil {
		t.Fatal(err)
	}
	if b.Total.Busy <= 7 || b.Total.Busy > 9 {
		t.Errorf("busy %g of $12 in 40 of 60 minutes", b.Total.Busy)
	}
}

func TestPodIsFoundByEachSetOfLabels(t *testing.T) {
	for name, c := range map[string]struct {
		labels string
		want   string // workload, or the kind of use
	}{
		"honorLabels true": {`UUID="g",Hostname="n",namespace="chat",pod="llama-0"`, "chat/llama"},
		"honorLabels false": {
			`UUID="g",Hostname="n",namespace="gpu-operator",pod="exp-1",exported_namespace="chat",exported_pod="llama-0"`, "chat/llama"},
		"honorLabels false, free": {`UUID="g",Hostname="n",namespace="gpu-operator",pod="nvidia-dcgm-exporter-1"`, "free"},
		"free, exporter by its container": {
			`UUID="g",Hostname="n",namespace="gpu-operator",pod="exp-1",container="nvidia-dcgm-exporter"`, "free"},
		"no labels": {`UUID="g",Hostname="n"`, "free"},
		"old namespace": {
			`uuid="g",hostname="n",namespace="gpu-operator",pod="exp-1",pod_namespace="chat",pod_name="llama-0"`, "chat/llama"},
		"a Deployment's pod without owner facts": {`UUID="g",hostname="n",namespace="chat",pod="llama-7d9f8b6c5d-xk2lp"`, "chat/llama"},
	} {
		t.Run(name, func(t *testing.T) {
			b, _, err := hourOf(t, Options{}, cost.Options{}, `DCGM_FI_PROF_GR_ENGINE_ACTIVE{`+c.labels+`} 1x60`)
			if err != nil {
				t.Fatal(err)
			}
			got := b.Uses[0].Name
			if len(b.Workloads) == 1 {
				got = b.Workloads[0].Name
			}
			if len(b.Lines) != 1 || got != c.want {
				t.Errorf("it is %q, want %q: %+v", got, c.want, b.Lines)
			}
		})
	}
}

// A declared exporter reports one GPU that a pod holds and one free GPU. The exporter cannot be recognized by its name. The free GPU must
// not be charged to the exporter's own pod.
func TestExporterPodHoldsNoGPU(t *testing.T) {
	monitoring := func(namespace, _ string) bool { return namespace == "monitoring" }
	b, _, err := hourOf(t, Options{Exporter: monitoring}, cost.Options{}, `
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="a",Hostname="n",namespace="monitoring",pod="exp-1",exported_namespace="chat",`+
		`exported_pod="llama-0"} 1x60
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="b",Hostname="n",namespace="monitoring",pod="exp-1"} 0x60`)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Namespaces) != 1 || b.Namespaces[0].Name != "chat" || len(b.Uses) != 2 {
		t.Errorf("namespaces %+v, uses %+v", b.Namespaces, b.Uses)
	}
}

func TestGPUWithoutValuesIsNotIdle(t *testing.T) {
	const blank = "9223372036854775794"
	for name, c := range map[string]struct {
		series           string
		measured, memory bool
	}{
		"blank values": {`DCGM_FI_PROF_GR_ENGINE_ACTIVE{` + chatGPU + `} ` + blank + `x60`, false, false},
		"one blank value spoils the mean": {`DCGM_FI_PROF_GR_ENGINE_ACTIVE{` + chatGPU + `} ` + strings.Repeat("0 0 "+blank+" 0 0 ", 12),
			false, false},
		"NaN": {`DCGM_FI_PROF_GR_ENGINE_ACTIVE{` + chatGPU + `} ` + strings.Repeat("NaN ", 60), false, false},
		"stuck at 0 while GPU_UTIL reads 99": {`DCGM_FI_PROF_GR_ENGINE_ACTIVE{` + chatGPU + `} 0x60` + "\n" +
			`DCGM_FI_DEV_GPU_UTIL{` + chatGPU + `} 99x60`, false, false},
		"only memory": {`DCGM_FI_DEV_FB_USED{` + chatGPU + `} 30000x60` + "\n" +
			`DCGM_FI_DEV_FB_FREE{` + chatGPU + `} 10000x60`, false, true},
		"an old GPU: GPU_UTIL is all it has": {`DCGM_FI_DEV_GPU_UTIL{` + chatGPU + `} 25x60`, true, false},
		"lower case":                         {`dcgm_fi_prof_gr_engine_active{` + chatGPU + `} 0.25x60`, true, false},
		"a blank SM_ACTIVE beside GPU_UTIL": {`DCGM_FI_PROF_SM_ACTIVE{` + chatGPU + `} ` + blank + `x60` + "\n" +
			`DCGM_FI_DEV_GPU_UTIL{` + chatGPU + `} 25x60`, true, false},
		"two exporters report the same GPU": {`DCGM_FI_PROF_GR_ENGINE_ACTIVE{` + chatGPU + `,job="a"} 0.25x60` + "\n" +
			`DCGM_FI_PROF_GR_ENGINE_ACTIVE{` + chatGPU + `,job="b"} 0.25x60`, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, notes, err := hourOf(t, Options{}, cost.Options{}, c.series+karpenterNode)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case c.measured:
				want(t, "idle by activity", b.Total.IdleByActivity, 9)
			case c.memory:
				want(t, "idle by memory", b.Total.IdleByMemory, 3)
			default:
				want(t, "unmeasured", b.Total.Unmeasured, 12)
			}
			if !c.measured && !strings.Contains(strings.Join(notes, " "), "of the GPU time") {
				t.Errorf("the notes do not say so: %v", notes)
			}
			want(t, "cost", b.Total.Cost, 12)
		})
	}
}

func TestGPUWithMIGInstancesIsNotCountedTwice(t *testing.T) {
	slice := func(id, profile, pod string) string {
		return fmt.Sprintf("DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\",UUID=\"GPU-1\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"n\","+
			"GPU_I_ID=%q,GPU_I_PROFILE=%q%s} 0.5x60\n", id, profile, pod)
	}
	b, _, err := hourOf(t, Options{Nodes: map[string]cost.Offer{"n": {InstanceType: "p5.4xlarge", CapacityType: "on-demand", Region: "r"}}},
		cost.Options{Book: cost.NewBook([]cost.Type{{Name: "p5.4xlarge", Region: "r", GPUs: 1, Hourly: map[string]float64{cost.OnDemand: 7}}},
			nil, nil)},
		slice("1", "3g.40gb", `,namespace="chat",pod="llama-0"`)+slice("7", "1g.10gb", "")+
			`DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",Hostname="n"} 0x60`)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "GPU-hours", b.Total.GPUHours, 1)
	want(t, "the chat's share", b.Namespaces[0].Cost, 3)
	want(t, "unallocated", b.Total.Unallocated, 4)
}

func TestNotebooksOfJupyterHubAndKubeflowHaveTheirOwners(t *testing.T) {
	gpu := func(id, ns, pod, container string) string {
		return fmt.Sprintf("DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID=%q,Hostname=\"n\",namespace=%q,pod=%q,container=%q} 0x60\n",
			id, ns, pod, container)
	}
	b, _, err := hourOf(t, Options{}, cost.Options{}, gpu("a", "hub", "jupyter-ada", "notebook")+gpu("b", "bob", "vision-0", "vision")+
		gpu("c", "chat", "llama-0", "vllm")+
		`kube_pod_labels{namespace="bob",pod="vision-0",label_notebook_name="vision",label_owner="bob@example.com"} 1x60`)
	if err != nil {
		t.Fatal(err)
	}
	var owners []string
	for _, n := range b.Notebooks {
		owners = append(owners, n.Owner)
	}
	if got := fmt.Sprint(owners); got != "[bob@example.com ada]" {
		t.Errorf("owners %s", got)
	}
}

func TestWithoutKarpenterNodesAreKnownByTheirLabels(t *testing.T) {
	for labels, kind := range map[string]string{
		`label_eks_amazonaws_com_capacity_type="SPOT"`:           "spot",
		`label_eks_amazonaws_com_capacity_type="CAPACITY_BLOCK"`: "reserved",
		`label_cloud_google_com_gke_spot="true"`:                 "spot",
		`label_kubernetes_azure_com_scalesetpriority="spot"`:     "spot",
		`label_karpenter_sh_capacity_type="reserved"`:            "reserved",
		`label_beta="x"`: "on-demand",
	} {
		b, notes, err := hourOf(t, Options{}, cost.Options{}, `DCGM_FI_PROF_GR_ENGINE_ACTIVE{`+chatGPU+`} 1x60
kube_node_labels{node="ip-1.ec2.internal",label_node_kubernetes_io_instance_type="g5.xlarge",`+
			`label_topology_kubernetes_io_zone="us-east-1a",`+labels+`} 1x60
kube_node_labels{node="no-gpu",label_node_kubernetes_io_instance_type="m5.large"} 1x60`)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Lines) != 1 || b.Lines[0].InstanceType != "g5.xlarge" || b.Lines[0].CapacityType != kind || b.Unpriced[0].Region != "us-east-1" {
			t.Errorf("%s: %+v, %+v", labels, b.Lines, b.Unpriced)
		}
		if !strings.Contains(strings.Join(notes, " "), "Karpenter's node metrics are missing") {
			t.Errorf("notes %v", notes)
		}
	}
}

func TestEveryQueryHasTheMatchersOfThePlatform(t *testing.T) {
	s, client := serve(t, `DCGM_FI_PROF_GR_ENGINE_ACTIVE{cluster="a",`+chatGPU+`} 1x60
DCGM_FI_PROF_GR_ENGINE_ACTIVE{cluster="b",UUID="other",namespace="x",pod="y"} 1x60`)
	l := cost.NewLedger(cost.Options{})
	if _, err := Read(t.Context(), client, Options{From: time.Unix(0, 0), To: time.Unix(3600, 0), Step: 5 * time.Minute,
		Matchers: map[string]string{"cluster": "a"}, Exporter: inGPUOperator}, l); err != nil {
		t.Fatal(err)
	}
	selectors := s.Selectors(t)
	for _, one := range selectors {
		if !strings.Contains(one, `cluster="a"`) {
			t.Errorf("%s selects the series of every cluster", one)
		}
	}
	if b := l.Bill(cost.Period{}); len(b.Namespaces) != 1 || len(selectors) < 5 {
		t.Errorf("namespaces %+v in %d selectors", b.Namespaces, len(selectors))
	}
}

func TestEmptyTimeRangeIsAnError(t *testing.T) {
	if _, _, err := hourOf(t, Options{}, cost.Options{}, `up 1x60`); !errors.Is(err, ErrNoGPUs) {
		t.Errorf("%v", err)
	}
	if _, err := Read(t.Context(), nil, Options{From: time.Unix(1, 0), To: time.Unix(1, 0), Step: time.Minute}, nil); err == nil {
		t.Error("an empty time is read")
	}
}

func TestRegionsOfZones(t *testing.T) {
	for zone, want := range map[string]string{"us-east-1a": "us-east-1", "us-central1-a": "us-central1", "eu-west-2c": "eu-west-2",
		"": "home", "us-west-2-lax-1a": "us-west-2-lax-1", "westeurope-1": "home"} {
		if got := RegionOf(zone, "home"); got != want {
			t.Errorf("%q is in %q, want %q", zone, got, want)
		}
	}
}
