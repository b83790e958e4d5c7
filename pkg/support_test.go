package pkg_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
)

// state is what the tests show about a row of the support matrix in config/guides/support.md.
type state string

const (
	works    state = "works"
	refused  state = "refused"
	untested state = "untested"
)

// support is a row of the support matrix. If its state is works or refused, test is the test function that shows this, as "DIRECTORY NAME".
type support struct {
	what  string
	state state
	test  string
	note  string // how to use this feature, or what is missing
}

// supportTable is a table of config/guides/support.md.
type supportTable struct {
	title, intro string
	rows         []support
}

// supportTables contains the tables of config/guides/support.md, except for the table of versions.
var supportTables = []supportTable{
	{"Workloads", "", []support{
		{"Deployment", works, "e2e/line TestQueueScalesADeploymentFromOneToFiveToTwo", ""},
		{"StatefulSet", works, "e2e/line TestStatefulSetIsActivatedAndReturnsToZero", ""},
		{"LeaderWorkerSet", works, "e2e/cluster TestLeaderWorkerSetIsReadOnceItsCRDIsInstalledAndIsActivated", "Each replica is a group of pods"},
		{"Argo Rollout and other kinds with a scale subresource and one pod for each replica", works,
			"e2e/cluster TestScaleKindIsReadThroughItsScaleSubresourceAlsoIfInstalledLater", "List the kind in the chart value `scaleKinds`"},
		{"AIBrix StormService, and other kinds with several pods for each replica that the chart value `scaleKinds` describes", works,
			describedTest,
			"Set `podsPerReplica` and `replicaLabel` of the kind in `scaleKinds`. Signals of pods are read from all pods of a replica"},
		{"kinds with several pods for each replica that `scaleKinds` does not describe", refused,
			"pkg/cluster/cache TestKindWithSeveralPodsPerReplicaIsRefused", "`explain` reports the number of pods and of replicas"},
		{"Grove PodCliqueScalingGroup, and PodClique outside of a group", works, describedTest,
			"`values.yaml` of the chart contains the descriptions. A PodCliqueSet contains several of these objects, so use a policy for each " +
				"object"},
		{"Kthena ModelServing", works, describedTest, "Each replica is a serving group. `values.yaml` of the chart contains the description"},
		{"Kthena roles: ModelServingRoleReplica of a ModelServing with one serving group", works, describedTest,
			"`values.yaml` of the chart contains the description. Limitation: with several serving groups, the role " +
				"is refused. Scale the ModelServing instead"},
		{"RayCluster, RayService and RayJob: worker groups", refused, "e2e/cluster TestKindsWithoutAScaleSubresourceAreRefused",
			"These kinds have no scale subresource. The autoscaler of Ray scales the worker groups. Capacity groups count the GPUs of the pods"},
		{"KServe InferenceService and LLMInferenceService", refused, "e2e/cluster TestKindsWithoutAScaleSubresourceAreRefused",
			"These kinds have no scale subresource. Set `scaleTargetRef` to the Deployment or the LeaderWorkerSet that KServe creates"},
		{"rollout of a Deployment that starts new pods first", works,
			"e2e/line TestEveryStepOfOneReplicaIsFollowedDuringARollout", ""},
		{"rollout of a Deployment that uses all GPUs its NodePools may have", works,
			"e2e/karpenter TestRolloutWithoutAFreeGPUIsForeseenAndCompletesWithTheAdvice",
			"The rollout replaces one pod at a time. `gpuscaler lint` reports a strategy that would wait forever"},
		{"Job and CronJob", works, "e2e/karpenter TestPodsOfACronJobAreDemandUntilTheyComplete",
			"The pods of the Job count as demand for nodes. gpuscaler does not scale the Job"},
		{"the only replica of a Deployment on a node that drifts", works, "e2e/karpenter TestOnlyReplicaLeavesADriftedNodeWithoutAGap",
			"With `startupShield` or `karpenter.sh/do-not-disrupt`, a second replica is ready before the first replica is deleted. " +
				"Limitation: this does not apply while the drifted node has free GPUs for the second replica"},
		{"gangs of JobSet, PyTorchJob, RayJob and Volcano", works, "e2e/cluster TestHalfStartedGangIsDemandAndKeepsItsNode",
			"Waiting and running pods of a gang together count as demand. gpuscaler writes no override because of these pods. " +
				"The controllers of the gangs do not run in the test"},
		{"gangs that Kueue admits", works, "e2e/cluster TestGangOfKueueIsDemandFromItsAdmissionToItsEnd",
			"The pods of a gang count as demand for nodes as soon as Kueue admits one of these pods"},
		{"pods with a scheduling gate, such as the gate of Kueue, and pods of a Volcano gang that have space", works,
			"pkg/cluster TestPodsThatWaitForAdmissionDoNotWaitForNodes",
			"These pods do not wait for nodes, so they start no spot wait timeout and no cap. The finding `held-pods` reports these pods"},
		{"a pod without a policy on an on-demand node, when replicas return to spot", works,
			"e2e/karpenter TestUnmovablePodsStayOnDemandAndAreReported", "The pod stays on its node, and gpuscaler reports the pod"},
	}},
	{"Autoscalers that apply the target", "", []support{
		{"HPA", works, "e2e/line TestHPAFollowsARecordedHourOfRequests", "[HPA](hpa.md)"},
		{"HPA with `minReplicas: 0` (Kubernetes 1.37 or later, or the feature gate `HPAScaleToZero`)", works,
			"e2e/line TestHPAWithMinReplicasZeroIsTheOnlyWriterOfReplicas",
			"The HPA scales to zero and from zero, and `activate` has no effect. A workload that a user scaled to zero stays at zero"},
		{"HPA with a `fallback` on the metric (feature gate `HPAExternalMetricFallback`)", refused,
			"cmd/gpuscaler/policies TestLintChecksTheObjectsOfFiles",
			"`gpuscaler lint` reports an error. Kubernetes 1.36.3 does not have the field"},
		{"KEDA ScaledObject", works, "e2e/keda TestFromZeroToManyToZero", "[KEDA](keda.md)"},
		{"a second HPA or ScaledObject on the same workload", refused,
			"pkg/cluster/cache TestScaledObjectAndHPAOnOneTargetAreTwoOwners", "`gpuscaler explain` and Events report the conflict"},
	}},
	{"How a pod gets a GPU", "", []support{
		{"`nvidia.com/gpu`", works, "e2e/karpenter TestDayOfOneGroupFromZeroToZero", ""},
		{"time-slicing and MPS: activity", works,
			"pkg/telemetry TestActivityOfASharedGPUHoldsAndDoesNotRaise",
			"Limitation: this signal can keep the target, but it cannot raise the target"},
		{"time-slicing and MPS: cost", works, "pkg/cost TestPodsOfASharedGPUPayEqually", "The pods on a GPU share the price of the GPU"},
		{"MIG (`nvidia.com/mig-1g.10gb`): activity and cost", works, "pkg/cost TestMIGSlicesShareThePrice", ""},
		{"MIG partitions and shares of GPUs that no instance type of Karpenter provides", refused,
			"cmd/gpuscaler/policies TestLintReportsPartitionsThatKarpenterDoesNotOffer",
			"`gpuscaler lint` reports an error. The controller accepts the policy"},
		{"DRA: whole GPUs by DeviceClass", works, "e2e/karpenter TestClaimedGPUsAreDemandAndRemoveTheZeroLimit",
			"In a group with `nodePools`, set `resource` to `deviceclass.resource.kubernetes.io/NAME`. A group with a `nodeSelector` " +
				"refuses a DeviceClass"},
		{"DRA: a group whose `resource` is a DeviceClass, with rules that set a limit", refused,
			"pkg/capacity TestGroupOfADeviceClassSetsNoLimit",
			"The limits of a NodePool do not include devices of a DeviceClass"},
		{"DRA: partitionable devices, such as MIG partitions by DeviceClass", works,
			"e2e/karpenter TestPartitionsOfAGPUAreDemandOfTheirDeviceClass",
			"In a group with `nodePools`, set `resource` to the DeviceClass of the partitions"},
		{"`amd.com/gpu`, `gpu.intel.com/i915`, `gpu.intel.com/xe`, `habana.ai/gaudi`: demand, quotas, teams", works,
			"pkg/cluster/gpupods TestGPUsAreWhatTheSchedulerReserves", ""},
		{"activity of AMD GPUs, from the AMD Device Metrics Exporter", works, "pkg/telemetry TestQueryReadsTheActivityOfAMDGPUs",
			"Add a query with `workloadLabel: workload` to the PlatformConfig: `avg by (namespace, workload) (label_replace(" +
				"gpu_gfx_activity{pod!=\"\"}, \"workload\", \"$1\", \"pod\", \"(.+)-[a-z0-9]+-[a-z0-9]{5}\"))`. Add a signal with `target: 70` and " +
				"`metricType: Value`"},
		{"activity of Intel Gaudi accelerators", untested, "",
			"The documentation of the exporter lists the metric `habanalabs_utilization`, but no labels of pods"},
	}},
	{"Model servers and routers", "The column `notes` shows the type of a signal, or the query for `queries` in the PlatformConfig. " +
		"No test runs a model\n" +
		"server. The tests read [samples](../../pkg/telemetry/exposition/testdata/servers/README.md) of metrics pages.", []support{
		{"vLLM", works, serverTest, "`type: vllm`"},
		{"SGLang", works, serverTest, "`type: sglang`. Prefill and decode servers report additional queues"},
		{"NVIDIA NIM", works, serverTest, "`type: nim`. For newer images, set `path: /metrics`"},
		{"Triton, also with the TensorRT-LLM backend", works, serverTest, "`type: triton`"},
		{"trtllm-serve", works, serverTest, "`type: trtllm`. The path is `/prometheus/metrics`"},
		{"NVIDIA Dynamo: workers", works, serverTest, "`type: dynamo`, or the type of the engine with `port: 9090`"},
		{"NVIDIA Dynamo: frontend", works, routerTest, "`sum by (namespace, model) (dynamo_frontend_queued_requests)`"},
		{"llm-d: endpoint picker", works, routerTest, "`sum by (namespace, inference_pool) (llm_d_epp_flow_control_queue_size)`"},
		{"Ray Serve", works, serverTest, "`type: ray`"},
		{"KServe, with vLLM", works, serverTest, "the type of the engine, such as `type: vllm` with `port: 8080`"},
		{"Text Generation Inference", works, serverTest, "`type: tgi`"},
		{"Gateway API Inference Extension", works, "e2e/guides TestCommandsOfReadmeAndGuidesRun",
			"`sum by (namespace, inference_pool) (inference_extension_flow_control_queue_size)`"},
	}},
	{"Node provisioners", "To scale replicas, gpuscaler needs no capacity group, because any provisioner can add nodes for pending " +
		"pods. With a capacity group\nthat has `nodePools`, gpuscaler also overrides fields of the NodePools and caps targets. With a capacity " +
		"group that has a `nodeSelector`,\ngpuscaler caps targets, sets the deletion cost of pods, and writes CapacityBuffers if the group has " +
		"`buffer: true`. It changes no nodes.", []support{
		{"Karpenter, with its KWOK provider", works, "e2e/karpenter TestDayOfOneGroupFromZeroToZero", "[Karpenter](karpenter.md)"},
		{"static NodePools (`spec.replicas`)", works, "pkg/capacity TestStaticNodePoolIsFullAtItsReplicas",
			"gpuscaler writes no field of these NodePools. A finding of the group includes the `kubectl scale nodepool` command with the " +
				"number of nodes"},
		{"prices that a NodeOverlay of Karpenter changes", works, "pkg/cluster/karpenter TestNodeOverlaysChangePricesAsInKarpenter",
			"The costs of nodes that Karpenter launched include the changed prices. The test compares the changed prices with Karpenter's code"},
		{"Karpenter, with the providers for AWS, Azure and GCP", untested, "", "NodePools and NodeClaims have the same fields for each provider"},
		{"NodePools of `karpenter.sh/v1beta1`", refused, "pkg/cluster/snapshot TestNodePoolOfAnUnsupportedVersionIsReported",
			"Upgrade Karpenter to 1.0 or later"},
		{"a fixed number of nodes, without capacity groups", works, "e2e/line TestQueueScalesADeploymentFromOneToFiveToTwo", ""},
		{"a fixed number of nodes, as a capacity group with a `nodeSelector`", works, "pkg/capacity TestStaticFleetCapsTheTargetAtItsNodes",
			"[GPU nodes without Karpenter](nodes.md)"},
		{"nodes that an autoscaler adds up to a maximum, as a capacity group with a `nodeSelector`", works,
			"e2e/fleet TestTargetIsCappedAtTheNodesThatTheAutoscalerMayAdd", "Set `maxNodes` or `maxCapacity`. The autoscaler " +
				"in the test follows rules of Cluster Autoscaler"},
		{"placeholder pods, for which an autoscaler adds nodes before a peak", works, "e2e/fleet TestPlaceholderAddsANodeThatAReplicaUses",
			"`gpuscaler manifests placeholder` prints the objects, and you apply the objects"},
		{"ProvisioningRequest", works, "e2e/fleet TestProvisioningRequestAddsTheNodesOfItsReplicas",
			"`gpuscaler manifests provisioningrequest` prints the ProvisioningRequest, and you apply it. The provisioner in the test is a script"},
		{"CapacityBuffer of `v1beta1` for a capacity group with a `nodeSelector`", works,
			"e2e/fleet TestInfeasibleBufferOfLabeledNodesCapsTheTarget",
			"`Infeasible` caps the target. The test uses the CRD of Karpenter, and sets the status itself"},
		{"CapacityBuffer of `v1alpha1` only", untested, "", "gpuscaler writes no CapacityBuffer. Use placeholder pods instead"},
		{"Cluster Autoscaler, GKE node auto-provisioning, AKS: the components themselves", untested, "",
			"gpuscaler prints commands that keep nodes. It does not run these commands"},
	}},
}

const (
	serverTest = "pkg/telemetry/exposition TestProfilesReadTheSamples"
	routerTest = "pkg/telemetry TestQueriesReadRoutersInFrontOfModelServers"

	describedTest = "e2e/cluster TestDescribedKindWithSeveralPodsPerReplicaIsCountedByReplica"
)

// testedVersions contains the components that the end-to-end tests run, each with the Go module that determines its version.
var testedVersions = []struct{ what, component, module, test string }{
	{"Kubernetes", "kubernetes", "k8s.io/kubernetes", "e2e/line TestQueueScalesADeploymentFromOneToFiveToTwo"},
	{"Karpenter", "karpenter", "sigs.k8s.io/karpenter", "e2e/karpenter TestDayOfOneGroupFromZeroToZero"},
	{"KEDA", "keda", "github.com/kedacore/keda/v2", "e2e/keda TestFromZeroToManyToZero"},
	{"Prometheus", "prometheus", "github.com/prometheus/prometheus", "e2e/outage TestPrometheusStopsAndStarts"},
	{"cert-manager", "cert-manager", "github.com/cert-manager/cert-manager",
		"e2e/install TestCertManagerIssuesCertificatesThatTheAPIServerTrusts"},
}

// config/guides/support.md is generated from supportTables: it lists only what a test shows.
func TestSupportMatrix(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Support\n\nThis page lists what works with gpuscaler:\n\n" +
		"- `works`: the test in the table shows that the feature works. Tests in `e2e` run the real components as local processes.\n" +
		"- `refused`: gpuscaler does not support the feature, and reports this. The test in the table shows the report.\n" +
		"- `untested`: the feature may work, but no test shows that it works.\n")
	tests := testsByDirectory{}
	for _, table := range supportTables {
		table.write(t, &b, tests)
	}
	var versions []support
	for _, v := range testedVersions {
		versions = append(versions, support{v.what + " " + versionIn(t, v.component, v.module), works, v.test, ""})
	}
	versions = append(versions, support{"other versions", untested, "",
		"The chart installs on Kubernetes 1.30 or later, because it uses ValidatingAdmissionPolicies of version `v1`. Before 1.35, the " +
			"field `tolerance` of an HPA is off by default, so the HPA ignores small changes"})
	supportTable{"Versions", "", versions}.write(t, &b, tests)
	golden.Compare(t, "../config/guides/support.md", b.String())
}

func (table supportTable) write(t *testing.T, b *strings.Builder, tests testsByDirectory) {
	t.Helper()
	fmt.Fprintf(b, "\n## %s\n\n", table.title)
	if table.intro != "" {
		b.WriteString(table.intro + "\n\n")
	}
	b.WriteString("| what | state | test | notes |\n|---|---|---|---|\n")
	for _, r := range table.rows {
		if (r.test == "") != (r.state == untested) {
			t.Errorf("%s: %s with the test %q", r.what, r.state, r.test)
		}
		shown := ""
		if r.test != "" {
			directory, name, _ := strings.Cut(r.test, " ")
			if problem := tests.problem(t, directory, name); problem != "" {
				t.Errorf("%s: %s", r.what, problem)
			}
			shown = "`" + directory + "` " + name
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", r.what, r.state, shown, r.note)
	}
}

// versionIn returns the version of a module in the go.mod of a component of the end-to-end tests.
func versionIn(t *testing.T, component, module string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "e2e", "components", component, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^(?:\t|require )` + regexp.QuoteMeta(module) + ` v(\S+)`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("the component %s does not require %s", component, module)
	}
	version := string(m[1])
	if module != "github.com/prometheus/prometheus" {
		return version
	}
	// The module v0.309.1 is Prometheus 3.9.1.
	parts := strings.Split(version, ".")
	if len(parts) != 3 || len(parts[1]) != 3 {
		t.Fatalf("the version %s of Prometheus is not v0.MNN.P", version)
	}
	return parts[1][:1] + "." + strings.TrimLeft(parts[1][1:], "0") + "." + parts[2]
}

// testsByDirectory contains, for each directory, the functions of the test files by name. For each function it contains whether the
// function skips a test and which functions it calls.
type testsByDirectory map[string]functions

type functions = map[string]function

type function struct {
	skips bool
	calls []string
}

// problem returns why a test is no evidence for a row of the support matrix: the test does not exist, or it is a unit test that can be
// skipped.
func (all testsByDirectory) problem(t *testing.T, directory, name string) string {
	t.Helper()
	if all[directory] == nil {
		all[directory] = readFunctions(t, filepath.Join("..", directory))
	}
	if _, exists := all[directory][name]; !exists {
		return "the test " + name + " does not exist in " + directory
	}
	if !strings.HasPrefix(directory, "e2e/") && canSkip(all[directory], name, map[string]bool{}) {
		return "the test " + name + " can be skipped"
	}
	return ""
}

func readFunctions(t *testing.T, directory string) functions {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(directory, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s: %v", directory, err)
	}
	out := functions{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				out[f.Name.Name] = functionOf(f.Body)
			}
		}
	}
	return out
}

func functionOf(body *ast.BlockStmt) (out function) {
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch f := call.Fun.(type) {
		case *ast.Ident:
			out.calls = append(out.calls, f.Name)
		case *ast.SelectorExpr:
			out.skips = out.skips || slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, f.Sel.Name)
		}
		return true
	})
	return out
}

func canSkip(all functions, name string, seen map[string]bool) bool {
	if seen[name] {
		return false
	}
	seen[name] = true
	f := all[name]
	return f.skips || slices.ContainsFunc(f.calls, func(called string) bool { return canSkip(all, called, seen) })
}

func TestSupportMatrixFindsTestsThatDoNotCount(t *testing.T) {
	tests := testsByDirectory{"pkg/x": functions{
		"TestRuns": {calls: []string{"helper"}}, "helper": {}, "TestSkips": {skips: true}, "TestCallsSkip": {calls: []string{"skipper"}},
		"skipper": {skips: true, calls: []string{"skipper"}},
	}, "e2e/x": functions{"TestSkips": {skips: true}}}
	for _, c := range []struct {
		directory, name string
		problem         bool
	}{
		{"pkg/x", "TestRuns", false}, {"pkg/x", "TestMissing", true}, {"pkg/x", "TestSkips", true}, {"pkg/x", "TestCallsSkip", true},
		{"e2e/x", "TestSkips", false}, {"e2e/x", "TestMissing", true},
	} {
		if got := tests.problem(t, c.directory, c.name); (got != "") != c.problem {
			t.Errorf("%s %s: problem %q, want one: %t", c.directory, c.name, got, c.problem)
		}
	}
	if !functionOf(bodyOf(t, `if x { t.Skipf("no data") }`)).skips || functionOf(bodyOf(t, `t.Log("skip")`)).skips {
		t.Error("a call of Skipf is not recognized")
	}
}

func bodyOf(t *testing.T, text string) *ast.BlockStmt {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "", "package x\nfunc f() { "+text+" }", parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f.Decls[0].(*ast.FuncDecl).Body
}
