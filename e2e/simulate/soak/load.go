package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/hpa"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/karpenter"
)

// load is the cluster of the soak test: workloads whose queues change all the time, with policies, HPAs and pods. Some workloads are in
// capacity groups with NodePools of Karpenter. The number of workloads is constant.
type load struct {
	now       time.Time
	began     time.Time
	size      int // number of policies
	api       *apiserver.Server
	random    *rand.Rand
	workloads []*workload
	karpenter *karpenter.Cluster
	groups    []string
	text      string // the policy files
	pods      int    // number in the name of the last created pod
	renamed   int    // number in the name of the last renamed workload
}

// workload is a Deployment with a policy and an HPA.
type workload struct {
	namespace, name string
	group           string // capacity group; empty: none
	queue           float64
	phase           float64 // phase of the queue, as a fraction of an hour
	max             int
	pods            []string // names of its pods
}

func (w *workload) key() string { return w.namespace + "/" + w.name }

const (
	queueTarget  = 10
	namespaces   = 20
	groupMembers = 3 // number of workloads of a capacity group
)

// newLoad returns a cluster with the given number of policies. One workload in ten is in a capacity group. There are at most ten groups.
func newLoad(size int, seed uint64) *load {
	l := &load{now: time.Now(), began: time.Now(), size: size, random: rand.New(rand.NewPCG(seed, 0))}
	l.api = apiserver.New(l.Now)
	var pools []karpenter.NodePool
	for i := range min(10, size/10) {
		group := fmt.Sprintf("group-%d", i)
		l.groups = append(l.groups, group)
		for _, kind := range []string{"spot", "on-demand"} {
			pool := karpenter.NodePool{Name: group + "-" + kind, Group: group, CapacityType: kind}
			pools = append(pools, pool)
			l.createNodePool(pool)
		}
	}
	l.karpenter = karpenter.New(l.api, l, pools)
	for i := range size {
		w := &workload{namespace: fmt.Sprintf("team-%d", i%namespaces), name: fmt.Sprintf("model-%d", i), phase: l.random.Float64(), max: 6}
		if g := i / groupMembers; g < len(l.groups) {
			// all queues of a group are empty at the same time, so that the group's limits become 0 every hour
			w.group, w.max, w.phase = l.groups[g], 2, float64(g)/float64(len(l.groups))
		}
		l.workloads = append(l.workloads, w)
		l.create(w)
	}
	l.writeFiles()
	return l
}

// Now implements karpenter.Surroundings.
func (l *load) Now() time.Time { return l.now }

// Refuses implements karpenter.Surroundings. The cloud always has capacity.
func (l *load) Refuses(string) bool { return false }

// Note implements karpenter.Surroundings.
func (l *load) Note(string, ...any) {}

const nodePoolManifest = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s, annotations: {gpuscaler.io/nudge: "limits,weight,disruption"}}
spec:
  weight: 10
  limits: {nvidia.com/gpu: "8"}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m, budgets: [{nodes: "100%%"}]}
  template:
    metadata: {labels: {%s: %s}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [%s]}]
`

func (l *load) createNodePool(p karpenter.NodePool) {
	text, err := yaml.YAMLToJSON(fmt.Appendf(nil, nodePoolManifest, p.Name, karpenter.GroupLabel, p.Group, p.CapacityType))
	u := &unstructured.Unstructured{}
	if err == nil {
		err = u.UnmarshalJSON(text)
	}
	if err != nil {
		panic(err)
	}
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(u.GroupVersionKind())
	l.api.Put(apiserver.KindNodePool, l.api.Managed.Update(empty, u, "kubectl-client-side-apply"))
}

// create creates the Deployment and the HPA of a workload.
func (l *load) create(w *workload) {
	app := map[string]string{"app": w.name}
	l.api.Put(apiserver.KindDeployment, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: w.name},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: w.podSpec()}},
	})
	(&hpa.Target{Namespace: w.namespace, Name: w.name, Min: 1}).CreateObjects(l.api)
}

func (w *workload) podSpec() corev1.PodSpec {
	gpu := corev1.ResourceList{karpenter.Resource: resource.MustParse("1")}
	resources := corev1.ResourceRequirements{Limits: gpu, Requests: gpu}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "server", Resources: resources}}}
	if w.group != "" {
		spec.NodeSelector = map[string]string{karpenter.GroupLabel: w.group}
	}
	return spec
}

// remove deletes a workload with its objects.
func (l *load) remove(w *workload) {
	l.api.Remove(apiserver.KindDeployment, w.key())
	l.api.Remove(apiserver.KindHPA, w.key())
	for _, pod := range w.pods {
		l.api.Remove(apiserver.KindPod, w.namespace+"/"+pod)
	}
	w.pods = nil
}

// scale writes spec.replicas of a workload.
func (l *load) scale(w *workload, replicas int32) {
	live := l.api.Get(apiserver.KindDeployment, w.key()).(*appsv1.Deployment)
	if *live.Spec.Replicas != replicas {
		next := live.DeepCopy()
		next.Spec.Replicas = new(replicas)
		l.api.Put(apiserver.KindDeployment, next)
	}
}

// runPods creates and deletes the pods of a workload to match spec.replicas. A pod outside of a capacity group has a node and is ready at
// once.
func (l *load) runPods(w *workload) {
	replicas := int(*l.api.Get(apiserver.KindDeployment, w.key()).(*appsv1.Deployment).Spec.Replicas)
	kept := w.pods[:0]
	for _, pod := range w.pods { // removes the names of pods that Karpenter deleted with their node
		if l.api.Get(apiserver.KindPod, w.namespace+"/"+pod) != nil {
			kept = append(kept, pod)
		}
	}
	w.pods = kept
	for len(w.pods) > replicas {
		l.api.Remove(apiserver.KindPod, w.namespace+"/"+w.pods[0])
		w.pods = append(w.pods[:0], w.pods[1:]...)
	}
	for len(w.pods) < replicas {
		l.pods++
		pod := &corev1.Pod{Spec: w.podSpec(), ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: fmt.Sprintf("%s-%d", w.name, l.pods),
			Labels:          map[string]string{"app": w.name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: w.name, Controller: new(true)}}}}
		if w.group == "" {
			pod.Spec.NodeName, pod.Status.PodIP, pod.Status.StartTime = "node", "10.0.0.1", new(metav1.NewTime(l.now))
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		l.api.Put(apiserver.KindPod, pod)
		w.pods = append(w.pods, pod.Name)
	}
}

// second runs one second of the cluster: each queue changes every two minutes, and each HPA syncs every 15 seconds.
func (l *load) second(c *controller) {
	elapsed := int(l.now.Sub(l.began) / time.Second)
	for i, w := range l.workloads {
		if (elapsed+i)%120 == 0 {
			hours := l.now.Sub(l.began).Hours() + w.phase
			w.queue = math.Round(queueTarget * float64(w.max) * max(0, 0.6*math.Sin(2*math.Pi*hours)+0.4*l.random.Float64()))
		}
		if (elapsed+i)%int(hpa.SyncPeriod/time.Second) == 0 {
			if target, known := c.target(w.namespace, w.name); known {
				l.scale(w, target)
			}
			l.runPods(w)
		}
	}
	l.karpenter.Run()
	l.churn(elapsed)
}

// churn restarts a pod every second and replaces a Deployment every 20 seconds. Every 10 minutes, it edits the policies and moves one of
// them to another Deployment.
func (l *load) churn(elapsed int) {
	if w := l.any(); len(w.pods) > 0 {
		l.api.Remove(apiserver.KindPod, w.namespace+"/"+w.pods[0])
		l.runPods(w)
	}
	if elapsed%20 == 0 {
		w := l.any()
		l.remove(w)
		l.create(w)
	}
	if elapsed%600 == 599 {
		w := l.any()
		l.remove(w)
		l.renamed++
		w.name = fmt.Sprintf("renamed-%d", l.renamed)
		l.create(w)
		for range max(l.size/100, 1) {
			w := l.any()
			w.max = 2 + (w.max-1)%4
		}
		l.writeFiles()
	}
}

func (l *load) any() *workload { return l.workloads[l.random.IntN(len(l.workloads))] }

const platformText = `apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: soak}
spec:
  cluster: soak
  mode: auto
  dataSources: [{name: prom, type: prometheus, default: true, address: "https://prometheus.monitoring.svc:9090"}]
  queries: [{name: queue, source: prom, query: "sum by (namespace, app) (queue_length)", workloadLabel: app}]
  capacityGroups:
`

const policyText = `---
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  scaleTargetRef: {name: %[1]s}
  minReplicas: %[3]d
  maxReplicas: %[4]d
  cooldownPeriod: 1m
%[5]s  behavior: {scaleDown: {stabilizationWindowSeconds: 60}}
  signals: [{name: queue, type: prometheus, queryRef: queue, target: %[6]d}]
`

// writeFiles stores the PlatformConfig and the policies of all workloads as YAML in l.text.
func (l *load) writeFiles() {
	var b strings.Builder
	b.WriteString(platformText)
	for _, group := range l.groups {
		fmt.Fprintf(&b, "  - {name: %[1]s, resource: nvidia.com/gpu, nodePools: {spot: %[1]s-spot, on-demand: %[1]s-on-demand}, "+
			"spotWaitTimeout: 1m, zeroLimit: true}\n", group)
	}
	for _, w := range l.workloads {
		group, least := "", 1
		if w.group != "" {
			group, least = "  capacityGroup: "+w.group+"\n", 0
		}
		fmt.Fprintf(&b, policyText, w.name, w.namespace, least, w.max, group, queueTarget)
	}
	l.text = b.String()
}
