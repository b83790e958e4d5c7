package cluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/apiservice"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Survey is one look at a cluster for `gpuscaler lint`: what is read once there, and judged with the rules by which the controller
// judges all day.
type Survey struct {
	Version      string // of the API server, "v1.36.4"; empty: unknown
	Minor        int    // 0: unknown
	KEDA         string // version by the operator's image; empty: there is none, or it does not say
	Karpenter    string
	Registration *apiregistration.APIService // of external.metrics.k8s.io; nil: nobody's
	// Unread is what could not be read, and why: nothing is judged of it.
	Unread []string

	hpas          []*autoscalingv2.HorizontalPodAutoscaler
	fallbacks     hpaFallbacks
	scaledObjects []*unstructured.Unstructured
	pools         []*unstructured.Unstructured
	nudges        bool // NodePools are served as karpenter.sh/v1
}

// ObjectFinding is a finding with the object that it is about.
type ObjectFinding struct {
	Object string // "HorizontalPodAutoscaler team-chat/llama"
	Grave  bool   // it will not work as written
	Finding
}

var (
	deploymentsResource   = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	hpasResource          = schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
	scaledObjectsResource = schema.GroupVersionResource{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"}
)

// ReadSurvey looks once. What is not installed is left out; what may not be read is in Unread. An error means that the cluster does
// not answer at all.
func ReadSurvey(ctx context.Context, objects dynamic.Interface, versions discovery.ServerVersionInterface) (*Survey, error) {
	v, err := versions.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("the cluster does not answer: %w", err)
	}
	s := &Survey{Version: v.GitVersion}
	s.Minor, _ = strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	list := func(r schema.GroupVersionResource, selector string) (items []unstructured.Unstructured, served bool) {
		all, err := objects.Resource(r).List(ctx, metav1.ListOptions{LabelSelector: selector})
		switch {
		case apierrors.IsNotFound(err):
			return nil, false
		case apierrors.IsForbidden(err):
			s.Unread = append(s.Unread, r.GroupResource().String()+": these rights do not let it be listed")
			return nil, true
		case err != nil:
			s.Unread = append(s.Unread, fmt.Sprintf("%s: %v", r.GroupResource(), err))
			return nil, true
		}
		return all.Items, true
	}
	hpas, _ := list(hpasResource, "")
	kedas, _ := list(scaledObjectsResource, "")
	pools, served := list(karpenter.NodePools, "")
	s.nudges = served
	for _, items := range [][]unstructured.Unstructured{hpas, kedas, pools} {
		for i := range items {
			if err := s.Add(&items[i]); err != nil {
				return nil, err
			}
		}
	}
	operators, _ := list(deploymentsResource, "app.kubernetes.io/name in (keda-operator, karpenter)")
	for i := range operators {
		s.operator(&operators[i])
	}
	s.registration(ctx, objects)
	return s, nil
}

// Add adds an HPA, a ScaledObject or a NodePool, as the API server or a file has it. Other kinds are left out.
func (s *Survey) Add(u *unstructured.Unstructured) error {
	switch u.GetKind() {
	case kindHPA:
		h := &autoscalingv2.HorizontalPodAutoscaler{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, h); err != nil {
			return fmt.Errorf("HorizontalPodAutoscaler %s/%s: %w", u.GetNamespace(), u.GetName(), err)
		}
		s.hpas = append(s.hpas, h)
		if s.fallbacks == nil {
			s.fallbacks = hpaFallbacks{}
		}
		s.fallbacks.add(u)
	case kindScaledObject:
		s.scaledObjects = append(s.scaledObjects, u)
	case karpenter.NodePoolKind.Kind:
		s.pools = append(s.pools, u)
	}
	return nil
}

// operator reads a version from an image's tag.
func (s *Survey) operator(u *unstructured.Unstructured) {
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	if len(containers) == 0 {
		return
	}
	first, _ := containers[0].(map[string]any)
	image, _ := first["image"].(string)
	image, _, _ = strings.Cut(image, "@")
	tag := image[strings.LastIndexByte(image, ':')+1:]
	if strings.Contains(tag, "/") || tag == image {
		return // no tag, or a registry's port
	}
	if u.GetLabels()["app.kubernetes.io/name"] == "karpenter" {
		s.Karpenter = tag
	} else {
		s.KEDA = tag
	}
}

func (s *Survey) registration(ctx context.Context, objects dynamic.Interface) {
	// A list of one is what the controller's own role allows, with which `helm test` asks.
	all, err := objects.Resource(apiservice.Resource).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + apiservice.Name})
	if err != nil {
		s.Unread = append(s.Unread, fmt.Sprintf("APIService %s: %v", apiservice.Name, err))
		return
	}
	for i := range all.Items {
		found := &apiregistration.APIService{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(all.Items[i].Object, found)
		if err == nil && found.Name == apiservice.Name {
			s.Registration = found
		}
	}
}

// Owner returns the service that serves external metrics: "keda/keda-operator-metrics-apiserver", or "no service".
func (s *Survey) Owner() string {
	return apiservice.ServiceOf(s.Registration)
}

// surveyPolicies are policies that stand still.
type surveyPolicies []scaling.Workload

func (p surveyPolicies) Current() []scaling.Workload { return p }

// Judge finds what objects do wrong. known says that policies are all there are, so that an HPA without one is a mistake. groups are the
// PlatformConfig's: the NodePools of each by capacity type.
func (s *Survey) Judge(policies []scaling.Workload, known bool, groups map[string]map[string]string) (found []ObjectFinding) {
	c := &Cluster{world: newWorld()}
	if known {
		c.options.Policies = surveyPolicies(policies)
	}
	c.world.minor = s.Minor
	for _, h := range s.hpas {
		if err := into(h, trimHPA, func(f *hpaFacts) { c.world.putHPA(nil, f) }); err != nil {
			continue // what is no HPA was sorted out while it was read
		}
	}
	for _, u := range s.scaledObjects {
		if err := into(u, trimScaledObject, func(f *scaledObjectFacts) { c.world.putScaledObject(nil, f) }); err != nil {
			continue
		}
	}
	add := func(object string, all []Finding) {
		for _, f := range all {
			found = append(found, ObjectFinding{Object: object, Grave: grave[f.What], Finding: f})
		}
	}
	decide := c.deciders()
	for _, r := range c.world.readers() {
		r.facts.Fallback = s.fallbacks.of(r.hpa)
		add(fmt.Sprintf("%s %s/%s", kindHPA, r.hpa.Namespace, r.hpa.Name), Lint(r.hpa.object(), withPolicies(r, decide)))
	}
	for _, o := range c.world.scaledObjects() {
		add(fmt.Sprintf("%s %s/%s", kindScaledObject, o.Namespace, o.Name), lintScaledObject(o, decide))
	}
	for object, all := range c.world.rivals() {
		add(object, all)
	}
	found = append(found, LintNodePools(s.pools, groups)...)
	found = append(found, s.preflight()...)
	slices.SortStableFunc(found, func(a, b ObjectFinding) int { return strings.Compare(a.Object, b.Object) })
	return found
}

// grave are the findings with which something does not work; the others cost exactness or money.
var grave = map[string]bool{
	NoSelector: true, UnknownPolicy: true, OtherTarget: true, TypeValue: true, WrongAverage: true, TwoOwners: true, TwoPolicies: true, NotServed: true,
	ZeroFallback: true, FallbackScalesDown: true, FormulaOverKEDA: true, NoFallback: true, NoSuchPool: true, StolenMetrics: true, SilentMetrics: true,
}

// rivals finds targets that two others move, none of which reads us: they fight whether we are there or not.
func (w *world) rivals() map[string][]Finding {
	w.mu.RLock()
	defer w.mu.RUnlock()
	out := map[string][]Finding{}
	for r, t := range w.targets {
		var movers []string
		ours := false
		for _, name := range sortedNames(t.hpas) {
			h := t.hpas[name]
			ours = ours || h.ours
			if t.scaledObject == nil || h.scaledObject != t.scaledObject.Name {
				movers = append(movers, kindHPA+" "+name)
			}
		}
		if t.scaledObject != nil {
			movers = append(movers, kindScaledObject+" "+t.scaledObject.Name)
		}
		if len(movers) > 1 && !ours { // where one reads us, Lint tells it
			out[r.String()] = []Finding{{TwoOwners, "its replicas are moved by " + strings.Join(movers, " and "), "keep one of them"}}
		}
	}
	return out
}

// What stands in gpuscaler's own way. Each is stable.
const (
	StolenMetrics  = "ExternalMetricsTaken"       // somebody else answers for external metrics
	SilentMetrics  = "ExternalMetricsUnavailable" // who is registered does not answer
	OldKubernetes  = "KubernetesTolerance"        // an HPA cannot be told to follow exactly
	OldKEDA        = "KEDAVersion"
	OldKarpenter   = "KarpenterVersion"
	ourServicePart = "gpuscaler"
)

// preflight judges what must be right before any policy is.
func (s *Survey) preflight() (out []ObjectFinding) {
	add := func(object, what, why, fix string) {
		out = append(out, ObjectFinding{Object: object, Grave: grave[what], Finding: Finding{what, why, fix}})
	}
	if r := s.Registration; r != nil {
		owner, object := s.Owner(), "APIService "+apiservice.Name
		if state, detail := apiservice.Available(r); state != "True" && r.Spec.Service != nil {
			add(object, SilentMetrics, fmt.Sprintf("%s is registered for external metrics and does not answer (%s %s): every HPA with an external metric holds, and namespaces cannot be deleted", owner, state, detail),
				fmt.Sprintf("see to %s, or delete the APIService if it was left behind", owner))
		}
		if !strings.Contains(owner, ourServicePart) && !strings.Contains(owner, "keda") && r.Spec.Service != nil {
			add(object, StolenMetrics, owner+" answers for external metrics, and there is one place per cluster: HPAs cannot read our numbers", "move its metrics behind KEDA or into policies, or use gpuscaler through KEDA's external scaler")
		}
	}
	if s.Minor > 0 && s.Minor < toleranceMinor {
		fix := "turn on the feature gate HPAConfigurableTolerance of the API server and kube-controller-manager"
		if s.Minor < gateMinor {
			fix = "start kube-controller-manager with --horizontal-pod-autoscaler-tolerance=0.001, or use KEDA from 2.21 on"
		}
		add("Kubernetes "+s.Version, OldKubernetes, "an HPA ignores steps below a tenth, and this version cannot be told otherwise per HPA by default", fix)
	}
	if major, minor, ok := versionOf(s.KEDA); ok && (major < 2 || major == 2 && minor < 14) {
		add("KEDA "+s.KEDA, OldKEDA, "external-push scalers are tried with KEDA from 2.14 on", "upgrade KEDA")
	}
	if major, _, ok := versionOf(s.Karpenter); ok && (major < 1 || !s.nudges) {
		add("Karpenter "+s.Karpenter, OldKarpenter, "karpenter.sh/v1 is not served: NodePools are neither read nor nudged", "upgrade Karpenter to 1.x")
	}
	return out
}

// versionOf reads "2.21.0" or "v1.15.0".
func versionOf(text string) (major, minor int, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(text, "v"), ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(parts[1])
	return major, minor, err == nil
}

// TriggerQueries are the Prometheus queries of one ScaledObject.
type TriggerQueries struct {
	Object, Namespace string
	MinReplicas       int32
	Queries           map[string]string // by the trigger's name, or its place
	Others            bool              // it has triggers that outlive its pods
}

// Queries lists what ScaledObjects ask of Prometheus, whosever they are.
func (s *Survey) Queries() (out []TriggerQueries) {
	for _, u := range s.scaledObjects {
		q := TriggerQueries{Object: fmt.Sprintf("%s %s/%s", kindScaledObject, u.GetNamespace(), u.GetName()), Namespace: u.GetNamespace(), MinReplicas: int32(numberOr(u, kedaMinReplicas, "spec", "minReplicaCount")),
			Queries: map[string]string{}}
		triggers, _, _ := unstructured.NestedSlice(u.Object, "spec", "triggers")
		for i, raw := range triggers {
			t, _ := raw.(map[string]any)
			kind, _, _ := unstructured.NestedString(t, "type")
			name, _, _ := unstructured.NestedString(t, "name")
			if name == "" {
				name = strconv.Itoa(i)
			}
			if query, _, _ := unstructured.NestedString(t, "metadata", "query"); kind == "prometheus" && query != "" {
				q.Queries[name] = query
			} else if kind != "cpu" && kind != "memory" {
				q.Others = true
			}
		}
		if len(q.Queries) > 0 {
			out = append(out, q)
		}
	}
	return out
}
