package cluster

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
)

// Kinds of dynamic resource allocation (DRA), stable since Kubernetes 1.34. Where they are not served or not read yet, every claim may be
// one of GPUs.
var (
	resourceClaimKind         = schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim"}
	resourceClaimTemplateKind = schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaimTemplate"}
	deviceClassKind           = schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "DeviceClass"}
)

// deviceRequests is what is kept of a ResourceClaim or a ResourceClaimTemplate.
type deviceRequests struct {
	metav1.ObjectMeta
	gpupods.ClaimRef
	classes []string // device classes of its requests; "": a request that names none
}

func (r *deviceRequests) key() claimKey { return claimKey{r.Namespace, r.ClaimRef} }

type claimKey struct {
	namespace string
	gpupods.ClaimRef
}

func trimDeviceRequests(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	path := []string{"spec", "devices", "requests"}
	template := u.GetKind() == resourceClaimTemplateKind.Kind
	if template {
		path = []string{"spec", "spec", "devices", "requests"}
	}
	out := &deviceRequests{
		ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion()},
		ClaimRef:   gpupods.ClaimRef{Name: u.GetName(), Template: template},
	}
	requests, _, _ := unstructured.NestedSlice(u.Object, path...)
	for _, raw := range requests {
		r, _ := raw.(map[string]any)
		out.classes = append(out.classes, classesOf(r)...)
	}
	return out, nil
}

// classesOf lists the device classes of one request: of its alternatives, or of the one that it names. Administrative access takes no
// device.
func classesOf(request map[string]any) (classes []string) {
	alternatives, _, _ := unstructured.NestedSlice(request, "firstAvailable")
	if exactly, found, _ := unstructured.NestedMap(request, "exactly"); found {
		alternatives = append(alternatives, exactly)
	}
	if len(alternatives) == 0 {
		return []string{""}
	}
	for _, raw := range alternatives {
		a, _ := raw.(map[string]any)
		if admin, _, _ := unstructured.NestedBool(a, "adminAccess"); admin {
			continue
		}
		class, _, _ := unstructured.NestedString(a, "deviceClassName")
		classes = append(classes, class)
	}
	return classes
}

// deviceClass is what is kept of a DeviceClass.
type deviceClass struct {
	metav1.ObjectMeta
	gpu bool // its devices may be GPUs
}

// gpuWords are in the names of the GPU and accelerator drivers, and of the device classes that they install: gpu.nvidia.com,
// mig.nvidia.com, gpu.amd.com, gpu.intel.com, gaudi.intel.com, tpu.google.com, neuron.amazonaws.com.
var gpuWords = []string{"gpu", "mig.", "gaudi", "tpu", "neuron"}

// trimDeviceClass reads whether a class may be one of GPUs: by its name, its extended resource and its selectors. A class whose selectors
// name no driver may have any device.
func trimDeviceClass(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	out := &deviceClass{ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion()}}
	resource, _, _ := unstructured.NestedString(u.Object, "spec", "extendedResourceName")
	text, driver := u.GetName()+" "+resource, false
	selectors, _, _ := unstructured.NestedSlice(u.Object, "spec", "selectors")
	for _, raw := range selectors {
		s, _ := raw.(map[string]any)
		expression, _, _ := unstructured.NestedString(s, "cel", "expression")
		text, driver = text+" "+expression, driver || strings.Contains(expression, "device.driver")
	}
	out.gpu = !driver
	for _, word := range gpuWords {
		out.gpu = out.gpu || strings.Contains(strings.ToLower(text), word)
	}
	return out, nil
}

// newDeviceKinds returns the kinds of DRA. They are watched only while NodePools are served: without Karpenter no limit is set, and the
// role has no right to read them.
func (n *nodes) newDeviceKinds() []*lateKind {
	requests := on(
		func(_, r *deviceRequests) { n.change(func() { n.requests[r.key()] = r }) },
		func(r *deviceRequests) { n.change(func() { delete(n.requests, r.key()) }) },
	)
	karpenter := func(context.Context) bool { return n.pool.synced() != nil }
	return []*lateKind{
		{kind: resourceClaimKind, trim: trimDeviceRequests, on: requests, allowed: karpenter},
		{kind: resourceClaimTemplateKind, trim: trimDeviceRequests, on: requests, allowed: karpenter},
		{kind: deviceClassKind, trim: trimDeviceClass, allowed: karpenter, on: on(
			func(_, c *deviceClass) { n.change(func() { n.classes[c.Name] = c }) },
			func(c *deviceClass) { n.change(func() { delete(n.classes, c.Name) }) },
		)},
	}
}

// mayClaimGPUs reports whether one of the claims may be one of GPUs: a claim or a class that is not known is one. The caller holds the
// lock.
func (n *nodes) mayClaimGPUs(namespace string, claims []gpupods.ClaimRef) bool {
	for _, c := range claims {
		requests := n.requests[claimKey{namespace, c}]
		if requests == nil {
			return true
		}
		for _, name := range requests.classes {
			if class := n.classes[name]; class == nil || class.gpu {
				return true
			}
		}
	}
	return false
}
