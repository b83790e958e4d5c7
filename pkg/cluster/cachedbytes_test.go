package cluster

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodes"
)

// metadata returns the metadata of test object i, as large as in a real cluster: labels, the annotation of kubectl apply, and managedFields
// of two managers. labels contains additional labels in JSON.
func metadata(i int, labels string) string {
	applied := strings.ReplaceAll(fmt.Sprintf(`{"spec":{"replicas":%d,%s}}`, i, strings.Repeat(`"field":"value",`, 60)), `"`, `\"`)
	managed := fmt.Sprintf(`{"manager":"kubectl","operation":"Apply","apiVersion":"v1","time":"2026-11-02T09:00:00Z",
"fieldsV1":{%s"f:last":{}}}`, strings.Repeat(`"f:spec":{"f:template":{}},`, 40))
	return fmt.Sprintf(`"metadata":{"name":"model-%[1]d","namespace":"team-%[2]d","uid":"5f0c2b1e-93a7-4c1d-8a52-%012[1]x",
"resourceVersion":"%[1]d",
"creationTimestamp":"2026-11-02T09:00:00Z","labels":{"app":"model-%[1]d","app.kubernetes.io/managed-by":"Helm",
"pod-template-hash":"6d4cf56db6"%[3]s},
"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"%[4]s"},"managedFields":[%[5]s,%[5]s]}`,
		i, i%50, labels, applied, managed)
}

const podSpec = `{"containers":[{"name":"server","image":"vllm/vllm-openai:v0.11.0","args":["--model","/models/llama",
"--max-model-len","32768"],
"env":[{"name":"A","value":"1"},{"name":"HF_HOME","value":"/models"},{"name":"NAME",
"valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
"ports":[{"containerPort":8000}],"resources":{"limits":{"nvidia.com/gpu":"1","memory":"64Gi"},"requests":{"nvidia.com/gpu":"1",
"cpu":"8"}},
"volumeMounts":[{"name":"models","mountPath":"/models"},{"name":"shm","mountPath":"/dev/shm"}],
"readinessProbe":{"httpGet":{"path":"/health","port":8000}},"securityContext":{"runAsNonRoot":true}}],
"volumes":[{"name":"models","persistentVolumeClaim":{"claimName":"models"}},{"name":"shm","emptyDir":{"medium":"Memory"}}],
"nodeName":"node-1","serviceAccountName":"default","tolerations":[{"key":"nvidia.com/gpu","operator":"Exists","effect":"NoSchedule"}]}`

// cachedKind describes a kind that gpuscaler watches. text returns a test object as large as in a real cluster, and trim is the informer's
// transform.
type cachedKind struct {
	object func() any // an empty object of the Go type into which the informer decodes
	text   func(i int) string
	trim   toolscache.TransformFunc
	limit  int // largest permitted size of a trimmed object in the cache, in bytes
}

var cachedKinds = map[string]cachedKind{
	"Pod": {func() any { return &corev1.Pod{} }, func(i int) string {
		return `{` + metadata(i, `,"team":"chat"`) + `,"spec":` + podSpec + `,"status":{"phase":"Running","podIP":"10.0.0.1",
"startTime":"2026-11-02T09:00:00Z",
"conditions":[{"type":"Ready","status":"True"},{"type":"Initialized","status":"True"},{"type":"PodScheduled","status":"True"}],
"containerStatuses":[{"name":"server","ready":true,"image":"vllm/vllm-openai:v0.11.0","imageID":"sha256:0123456789abcdef"}]}}`
	}, cache.TrimPod, 2150},
	"Node": {func() any { return &corev1.Node{} }, func(i int) string {
		image := `{"names":["registry.example/image@sha256:0123456789abcdef","registry.example/image:v1"],"sizeBytes":1000},`
		images := strings.TrimSuffix(strings.Repeat(image, 30), ",")
		return `{` + metadata(i, `,"karpenter.sh/nodepool":"spot"`) + `,"spec":{"providerID":"aws:///eu-west-1a/i-0123456789"},"status":{
"allocatable":{"cpu":"47","memory":"180Gi","nvidia.com/gpu":"4","pods":"110"},"capacity":{"cpu":"48","memory":"192Gi",
"nvidia.com/gpu":"4","pods":"110"},
"conditions":[{"type":"Ready","status":"True"},{"type":"MemoryPressure","status":"False"},{"type":"DiskPressure","status":"False"}],
"images":[` + images + `]}}`
	}, nodes.TrimNode, 1500},
	"NodeClaim": {func() any { return &unstructured.Unstructured{} }, func(i int) string {
		return `{"apiVersion":"karpenter.sh/v1","kind":"NodeClaim",` + metadata(i, `,"karpenter.sh/nodepool":"spot",
"karpenter.sh/capacity-type":"spot"`) + `,
"spec":{"expireAfter":"720h","nodeClassRef":{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"gpu"},"requirements":[
{"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]},{"key":"node.kubernetes.io/instance-type","operator":"In",
"values":["g6.12xlarge","g6.24xlarge","g6.48xlarge"]}]},
"status":{"nodeName":"node-1","providerID":"aws:///eu-west-1a/i-0123456789","capacity":{"cpu":"48","memory":"192Gi",
"nvidia.com/gpu":"4","pods":"110"},
"conditions":[{"type":"Launched","status":"True","reason":"Launched"},{"type":"Registered","status":"True","reason":"Registered"},
{"type":"Initialized","status":"True","reason":"Initialized"}]}}`
	}, karpenter.TrimNodeClaim, 1750}, // the stored NodeClaim keeps its labels, by which NodeOverlays select, and its condition times
	"HorizontalPodAutoscaler": {func() any { return &autoscalingv2.HorizontalPodAutoscaler{} }, func(i int) string {
		return `{` + metadata(i, "") + fmt.Sprintf(`,"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment",
"name":"model-%[1]d"},"minReplicas":1,"maxReplicas":9,
"metrics":[{"type":"External","external":{"metric":{"name":"gpuscaler-desired-replicas",
"selector":{"matchLabels":{"gpuscaler.io/policy":"model-%[1]d"}}},
"target":{"type":"AverageValue","averageValue":"1"}}}]},"status":{"currentReplicas":3,"desiredReplicas":3,"conditions":[
{"type":"AbleToScale","status":"True","reason":"ReadyForNewScale","message":"recommended size matches current size"},
{"type":"ScalingActive","status":"True","reason":"ValidMetricFound",
"message":"the HPA was able to successfully calculate a replica count"}],
"currentMetrics":[{"type":"External","external":{"metric":{"name":"gpuscaler-desired-replicas"},"current":{"averageValue":"1"}}}]}}`, i)
	}, cache.TrimHPA, 1750},
	"Deployment": {func() any { return &appsv1.Deployment{} }, func(i int) string {
		return `{` + metadata(i, "") + fmt.Sprintf(`,"spec":{"replicas":3,"selector":{"matchLabels":{"app":"model-%d"}},
"template":{"metadata":{"labels":{"app":"model"}},"spec":%s}},
"status":{"replicas":3,"readyReplicas":3,"conditions":[{"type":"Available","status":"True"},{"type":"Progressing",
"status":"True"}]}}`, i, podSpec)
	}, cache.TrimDeployment, 1060},
	"ScaledObject": {func() any { return &unstructured.Unstructured{} }, func(i int) string {
		return `{"apiVersion":"keda.sh/v1alpha1","kind":"ScaledObject",` + metadata(i, "") + fmt.Sprintf(`,
"spec":{"scaleTargetRef":{"name":"model-%[1]d"},"minReplicaCount":0,"maxReplicaCount":9,
"triggers":[{"type":"external-push","metadata":{"scalerAddress":"gpuscaler.gpuscaler.svc:6000","policy":"model-%[1]d"}},
{"type":"prometheus","name":"queue","metadata":{"serverAddress":"http://prometheus:9090","query":"sum(queue)","threshold":"10"}}]},
"status":{"conditions":[{"type":"Ready","status":"True","reason":"ScaledObjectReady",
"message":"ScaledObject is defined correctly and is ready for scaling"}],"health":{"s0":{"status":"Happy"}}}}`, i)
	}, cache.TrimScaledObject, 1850},
}

// sizes returns how many bytes of heap one object takes: received is its size as the API server sends it, stored its size after trim.
func (k *cachedKind) sizes(t testing.TB) (received, stored int) {
	const n = 500
	all := make([]any, n)
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := live()
	for i := range all {
		all[i] = k.object()
		if err := json.Unmarshal([]byte(k.text(i)), all[i]); err != nil {
			t.Fatal(err)
		}
	}
	decoded := live()
	for i := range all {
		trimmed, err := k.trim(all[i])
		if err != nil || trimmed == all[i] {
			t.Fatalf("%T after the transform: %v", trimmed, err)
		}
		all[i] = trimmed
	}
	after := live()
	runtime.KeepAlive(all)
	return int(decoded-before) / n, int(after-before) / n
}

// The caches contain every pod, node and HPA of the cluster. A cached object must not keep parts of the received object in memory that no
// code reads.
func TestCachesStoreOnlyWhatIsRead(t *testing.T) {
	for name, k := range cachedKinds {
		t.Run(name, func(t *testing.T) {
			// Goroutines of other tests may still allocate memory. The measurement is therefore repeated: it is unlikely that every measurement
			// includes such an allocation.
			received, stored := k.sizes(t)
			for range 4 {
				if stored > k.limit {
					_, again := k.sizes(t)
					stored = min(stored, again)
				}
			}
			t.Logf("%s: %d bytes received, %d stored", name, received, stored)
			if stored > k.limit {
				t.Errorf("%d bytes of an object are stored, want at most %d", stored, k.limit)
			}
		})
	}
}
