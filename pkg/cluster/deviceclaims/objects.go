package deviceclaims

import (
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/informer"
)

// Claim contains the data of a ResourceClaim or ResourceClaimTemplate that is stored.
type Claim struct {
	metav1.ObjectMeta
	template bool
	requests [][]option // alternatives of each device request (see firstAvailable); after the allocation, only the allocated alternative
}

// option is one alternative of a device request.
type option struct {
	class   string // name of the DeviceClass; "": unknown
	devices int64  // number of devices; unknownCount if it is known only after the allocation
}

const unknownCount = -1

// unreadable replaces the device requests of a claim that cannot be decoded. Such a claim counts as a claim for an unknown number of GPUs.
var unreadable = []option{{"", unknownCount}}

func (c *Claim) key() claimKey { return claimKey{c.Namespace, c.Name, c.template} }

// TrimClaim is the transform of the informers for ResourceClaims and ResourceClaimTemplates. It returns a *Claim. A claim that cannot be
// decoded gets an unknown device class, so that it counts as a claim for GPUs.
func TrimClaim(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	out := &Claim{ObjectMeta: informer.Identity(u), template: u.GetKind() == TemplateKind.Kind}
	claim, err := decodeClaim(u, out.template)
	if err != nil {
		out.requests = [][]option{unreadable}
		return out, nil
	}
	allocated := allocatedDevices(claim.Status.Allocation)
	for i := range claim.Spec.Devices.Requests {
		out.requests = append(out.requests, optionsOf(&claim.Spec.Devices.Requests[i], allocated))
	}
	return out, nil
}

// decodeClaim decodes a ResourceClaim. It converts a ResourceClaimTemplate to a ResourceClaim without an allocation.
func decodeClaim(u *unstructured.Unstructured, template bool) (*resourcev1.ResourceClaim, error) {
	c := &resourcev1.ResourceClaim{}
	if !template {
		return c, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, c)
	}
	t := &resourcev1.ResourceClaimTemplate{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, t)
	c.Spec = t.Spec.Spec
	return c, err
}

// allocatedDevices returns the number of allocated devices of each device request. The key is the name of the request ("gpu"), or for a
// request with alternatives the names of the request and the allocated alternative ("gpu/large").
func allocatedDevices(a *resourcev1.AllocationResult) map[string]int64 {
	if a == nil {
		return nil
	}
	n := map[string]int64{}
	for i := range a.Devices.Results {
		if r := &a.Devices.Results[i]; r.AdminAccess == nil || !*r.AdminAccess {
			n[r.Request] = min(n[r.Request]+1, gpupods.MaxGPUs)
		}
	}
	return n
}

// optionsOf returns the alternatives of one device request: the elements of its field firstAvailable or, if only its field "exactly" is
// set, the value of that field. If an alternative was allocated, optionsOf returns only this alternative. For a request with adminAccess
// it returns no alternative, because such a request reserves no device.
func optionsOf(r *resourcev1.DeviceRequest, allocated map[string]int64) (options []option) {
	if r.Exactly == nil && len(r.FirstAvailable) == 0 {
		return unreadable
	}
	for i := range r.FirstAvailable {
		sub := &r.FirstAvailable[i]
		n := allocated[r.Name+"/"+sub.Name]
		o := option{sub.DeviceClassName, devicesOf(sub.AllocationMode, sub.Count, n)}
		if n > 0 {
			return []option{o}
		}
		options = append(options, o)
	}
	if e := r.Exactly; e != nil && (e.AdminAccess == nil || !*e.AdminAccess) {
		options = append(options, option{e.DeviceClassName, devicesOf(e.AllocationMode, e.Count, allocated[r.Name])})
	}
	return options
}

// devicesOf returns how many devices a request reserves. allocated is the number of devices that were allocated for the request. It is 0
// before the allocation. The API server sets a missing mode to ExactCount and a missing count to 1.
func devicesOf(mode resourcev1.DeviceAllocationMode, count, allocated int64) int64 {
	switch {
	case allocated > 0:
		return allocated
	case mode != resourcev1.DeviceAllocationModeExactCount && mode != "", count < 0:
		return unknownCount
	}
	return min(max(count, 1), gpupods.MaxGPUs)
}

// Class contains the data of a DeviceClass that is stored.
type Class struct {
	metav1.ObjectMeta
	gpu              bool   // whether its devices may be GPUs
	extendedResource string // extended resource by which pods can request these devices without a claim
}

// gpuWords occur in the names of GPU and accelerator drivers and of the device classes that they install: gpu.nvidia.com,
// mig.nvidia.com, gpu.amd.com, gpu.intel.com, gaudi.intel.com, tpu.google.com, neuron.amazonaws.com.
var gpuWords = []string{"gpu", "mig.", "gaudi", "tpu", "neuron"}

// TrimClass is the transform of the informer for DeviceClasses. It returns a *Class. The class may have GPUs if its name, its extended
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
		out.extendedResource = *class.Spec.ExtendedResourceName
		text += " " + out.extendedResource
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
