package installation

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clientgotesting "k8s.io/client-go/testing"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/snapshot"
)

// own returns a Cluster that reads the given objects from a fake API server.
func own(objects ...runtime.Object) (*Cluster, *fake.Clientset) {
	typed := fake.NewClientset(objects...)
	return &Cluster{Typed: typed, Namespace: "gpuscaler-system"}, typed
}

func lease(holder string, renewed time.Time) *coordinationv1.Lease {
	seconds, at := int32(2), metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "gpuscaler-system", Name: "gpuscaler"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at}}
}

// The clock of the user's machine and the clock of the leader's node can differ by minutes. A Lease that is being renewed must count as
// held.
func TestLeaseIsHeldAlthoughTheClocksDiffer(t *testing.T) {
	for name, skew := range map[string]time.Duration{"the leader's clock is behind": -time.Hour, "it is ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			c, typed := own()
			reads := 0
			typed.PrependReactor("get", "leases", func(clientgotesting.Action) (bool, runtime.Object, error) {
				reads++
				return true, lease("pod-1", time.Now().Add(skew+time.Duration(reads)*time.Millisecond)), nil
			})
			if r := c.lease(t.Context(), &appsv1.Deployment{}); r.Status != OK || reads != 2 {
				t.Errorf("%d reads: %+v", reads, r)
			}
		})
	}
}

func TestLeaseWithoutAHolderOrWithoutPermission(t *testing.T) {
	c, _ := own()
	if r := c.lease(t.Context(), &appsv1.Deployment{}); r.Status != Failed || !strings.Contains(r.Found, "does not exist") {
		t.Errorf("absent: %+v", r)
	}
	c, _ = own(lease("", time.Now()))
	if r := c.lease(t.Context(), &appsv1.Deployment{}); r.Status != Failed || !strings.Contains(r.Found, "no replica holds") {
		t.Errorf("released: %+v", r)
	}
	c, typed := own()
	typed.PrependReactor("get", "leases", func(clientgotesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("leases is forbidden")
	})
	if r := c.lease(t.Context(), &appsv1.Deployment{}); r.Status != Warning || !strings.Contains(r.Found, "forbidden") {
		t.Errorf("forbidden: %+v", r)
	}
}

func node(name string, gpus int64, labels map[string]string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if gpus > 0 {
		n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	}
	return n
}

func TestGPUsOfNodesAreCounted(t *testing.T) {
	present := map[string]string{"nvidia.com/gpu.present": "true"}
	for _, c := range []struct {
		nodes  []runtime.Object
		status Status
		found  string
	}{
		{nil, Warning, "currently no node offers a GPU"},
		{[]runtime.Object{node("a", 8, nil), node("b", 4, present), node("cpu", 0, nil)}, OK, "2 nodes offer GPUs: 12 nvidia.com/gpu"},
		{[]runtime.Object{node("a", 8, nil), node("b", 0, present)}, Warning, "1 node with a GPU label offers no GPU resource: b"},
		{[]runtime.Object{node("a", 0, map[string]string{"nvidia.com/gpu.present": "false"})}, Warning, "currently no node offers a GPU"},
	} {
		cluster, _ := own(c.nodes...)
		if r := cluster.gpuNodes(t.Context()); r.Status != c.status || r.Found != c.found {
			t.Errorf("%+v, want %q", r, c.found)
		}
	}
}

// registration returns the APIService of external metrics that refers to a Service.
func registration(namespace, name string, available apiregistration.ConditionStatus) *apiregistration.APIService {
	return &apiregistration.APIService{
		Spec: apiregistration.APIServiceSpec{Service: &apiregistration.ServiceReference{Namespace: namespace, Name: name}},
		Status: apiregistration.APIServiceStatus{Conditions: []apiregistration.APIServiceCondition{{Type: apiregistration.Available,
			Status: available, Reason: "FailedDiscoveryCheck"}}},
	}
}

func TestRegistrationByOwner(t *testing.T) {
	release := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "gpuscaler-system"}}
	off := release.DeepCopy()
	off.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"run", "--external-metrics=off"}}}
	for name, c := range map[string]struct {
		found         *apiregistration.APIService
		release       *appsv1.Deployment
		before, after Status
	}{
		"absent":        {nil, release, OK, Failed},
		"absent, off":   {nil, off, OK, Warning},
		"ours":          {registration("gpuscaler-system", "gpuscaler", "True"), release, OK, OK},
		"ours, broken":  {registration("gpuscaler-system", "gpuscaler", "False"), release, Failed, Failed},
		"KEDA":          {registration("keda", "keda-operator-metrics-apiserver", "True"), release, OK, OK},
		"KEDA, broken":  {registration("keda", "keda-operator-metrics-apiserver", "False"), release, Failed, OK},
		"another one":   {registration("monitoring", "prometheus-adapter", "True"), release, Failed, Failed},
		"other release": {registration("gpus", "gpuscaler", "True"), release, Warning, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			s := &snapshot.Snapshot{Registration: c.found}
			cluster := &Cluster{Namespace: "gpuscaler-system"}
			if r := cluster.registration(s, s.ClusterFindings()); r.Status != c.before {
				t.Errorf("before: %+v, want %s", r, c.before)
			}
			if r := registered(s, c.release); r.Status != c.after {
				t.Errorf("after: %+v, want %s", r, c.after)
			}
		})
	}
	forbidden := &snapshot.Snapshot{RegistrationError: errors.New("forbidden")}
	if r := registered(forbidden, release); r.Status != Warning {
		t.Errorf("not read: %+v", r)
	}
}

// If the API server returns an error, the affected checks must not report the status ok.
func TestErrorsAreWarnings(t *testing.T) {
	c, typed := own()
	typed.PrependReactor("*", "*", func(clientgotesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("timeout")
	})
	for _, r := range []Result{c.gpuNodes(t.Context()), c.permissions(t.Context(), nil)} {
		if r.Status != Warning || !strings.Contains(r.Found, "timeout") {
			t.Errorf("%+v", r)
		}
	}
	if all, installed := c.After(t.Context(), &snapshot.Snapshot{}); !installed || len(all) != 1 || all[0].Status != Warning {
		t.Errorf("%+v", all)
	}
}
