// Package deviceclaims determines whether the ResourceClaims of a pod may be for GPUs. It stores the objects of dynamic resource allocation
// (DRA), whose API is stable since Kubernetes 1.34. If the API server does not serve this API, or the objects were not read yet, every
// claim counts as a claim for GPUs.
package deviceclaims

import (
	"slices"
	"strings"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/informer"
)

// Kinds of dynamic resource allocation.
var (
	ClaimKind    = resourcev1.SchemeGroupVersion.WithKind("ResourceClaim")
	TemplateKind = resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate")
	ClassKind    = resourcev1.SchemeGroupVersion.WithKind("DeviceClass")
)

// Claim is the part of a ResourceClaim or ResourceClaimTemplate that is stored.
type Claim struct {
	metav1.ObjectMeta
	gpupods.ClaimRef
	classes []string // device classes of its requests; "" for a request without one
}

// Class is the part of a DeviceClass that is stored.
type Class struct {
	metav1.ObjectMeta
	gpu bool // its devices may be GPUs
}

type claimKey struct {
	namespace string
	gpupods.ClaimRef
}

// Cache contains the claims and device classes of the cluster. It is safe for concurrent use.
type Cache struct {
	changed func()

	mu      sync.RWMutex
	claims  map[claimKey]*Claim
	classes map[string]*Class
}

// New returns an empty Cache, which calls changed after each change.
func New(changed func()) *Cache {
	return &Cache{changed: changed, claims: map[claimKey]*Claim{}, classes: map[string]*Class{}}
}

// PutClaim adds or replaces a claim.
func (c *Cache) PutClaim(claim *Claim) { c.change(func() { c.claims[claim.key()] = claim }) }

// DeleteClaim removes a claim.
func (c *Cache) DeleteClaim(claim *Claim) { c.change(func() { delete(c.claims, claim.key()) }) }

// PutClass adds or replaces a device class.
func (c *Cache) PutClass(class *Class) { c.change(func() { c.classes[class.Name] = class }) }

// DeleteClass removes a device class.
func (c *Cache) DeleteClass(class *Class) { c.change(func() { delete(c.classes, class.Name) }) }

func (c *Cache) change(what func()) {
	c.mu.Lock()
	what()
	c.mu.Unlock()
	c.changed()
}

// MayBeGPUs reports whether at least one of the claims may be for GPUs. A claim or device class that is not in the cache counts as one for
// GPUs.
func (c *Cache) MayBeGPUs(namespace string, claims []gpupods.ClaimRef) bool {
	if len(claims) == 0 {
		return false
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, ref := range claims {
		claim := c.claims[claimKey{namespace, ref}]
		if claim == nil || slices.ContainsFunc(claim.classes, c.mayBeOfGPUs) {
			return true
		}
	}
	return false
}

func (c *Cache) mayBeOfGPUs(class string) bool {
	known := c.classes[class]
	return known == nil || known.gpu
}

func (c *Claim) key() claimKey { return claimKey{c.Namespace, c.ClaimRef} }

// TrimClaim is the transform of the informers for ResourceClaims and ResourceClaimTemplates. It returns a *Claim. A claim that cannot be
// decoded gets an unknown device class, so that it counts as a claim for GPUs.
func TrimClaim(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	template := u.GetKind() == TemplateKind.Kind
	out := &Claim{ObjectMeta: informer.Identity(u), ClaimRef: gpupods.ClaimRef{Name: u.GetName(), Template: template}}
	spec, err := claimSpec(u, template)
	if err != nil {
		out.classes = []string{""}
		return out, nil
	}
	for i := range spec.Devices.Requests {
		out.classes = append(out.classes, classesOf(&spec.Devices.Requests[i])...)
	}
	return out, nil
}

func claimSpec(u *unstructured.Unstructured, template bool) (*resourcev1.ResourceClaimSpec, error) {
	if template {
		t := &resourcev1.ResourceClaimTemplate{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, t)
		return &t.Spec.Spec, err
	}
	c := &resourcev1.ResourceClaim{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, c)
	return &c.Spec, err
}

// classesOf returns the device classes of one device request: the class of each alternative in firstAvailable, or the class in exactly. A
// request with adminAccess has none, because it reserves no device.
func classesOf(r *resourcev1.DeviceRequest) (classes []string) {
	if r.Exactly == nil && len(r.FirstAvailable) == 0 {
		return []string{""}
	}
	for i := range r.FirstAvailable {
		classes = append(classes, r.FirstAvailable[i].DeviceClassName)
	}
	if e := r.Exactly; e != nil && (e.AdminAccess == nil || !*e.AdminAccess) {
		classes = append(classes, e.DeviceClassName)
	}
	return classes
}

// gpuWords occur in the names of GPU and accelerator drivers and of the device classes that they install: gpu.nvidia.com,
// mig.nvidia.com, gpu.amd.com, gpu.intel.com, gaudi.intel.com, tpu.google.com, neuron.amazonaws.com.
var gpuWords = []string{"gpu", "mig.", "gaudi", "tpu", "neuron"}

// TrimClass is the transform of the informer for DeviceClasses. It returns a *Class. A class may have GPUs if its name, its extended
// resource name or one of its selectors contains one of gpuWords. A class without a selector on device.driver may also have GPUs, because
// it can select any device.
func TrimClass(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	out := &Class{ObjectMeta: informer.Identity(u), gpu: true}
	class := &resourcev1.DeviceClass{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, class) != nil {
		return out, nil
	}
	text, namesDriver := class.Name, false
	if class.Spec.ExtendedResourceName != nil {
		text += " " + *class.Spec.ExtendedResourceName
	}
	for i := range class.Spec.Selectors {
		if cel := class.Spec.Selectors[i].CEL; cel != nil {
			text += " " + cel.Expression
			namesDriver = namesDriver || strings.Contains(cel.Expression, "device.driver")
		}
	}
	text = strings.ToLower(text)
	out.gpu = !namesDriver || slices.ContainsFunc(gpuWords, func(word string) bool { return strings.Contains(text, word) })
	return out, nil
}
