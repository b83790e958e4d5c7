package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// shortage is one entry of the scarcity file. Of the offerings that it matches, at most Limit nodes may exist. An empty field matches every
// value.
type shortage struct {
	CapacityType string `json:"capacityType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
	Limit        int    `json:"limit,omitempty"` // maximum number of nodes
}

func (s shortage) matches(o offering) bool {
	return (s.CapacityType == "" || s.CapacityType == o.capacityType) &&
		(s.Zone == "" || s.Zone == o.zone) &&
		(s.InstanceType == "" || s.InstanceType == o.instanceType)
}

type offering struct{ instanceType, capacityType, zone string }

// scarce is the KWOK provider with limited capacity. As on AWS, Karpenter learns of a shortage from a failed launch. The offering is then
// reported as unavailable for a while, and tried again afterwards.
type scarce struct {
	*kwok.CloudProvider // for all methods except Create and GetInstanceTypes
	kube                client.Client
	types               []*cloudprovider.InstanceType
	file                string
	pause               time.Duration

	mu          sync.Mutex
	unavailable map[offering]time.Time // end of the unavailability
}

func newScarce(kube client.Client, types []*cloudprovider.InstanceType, file string, pause time.Duration) *scarce {
	return &scarce{
		CloudProvider: kwok.NewCloudProvider(context.Background(), kube, types),
		kube:          kube, types: types, file: file, pause: pause,
		unavailable: map[offering]time.Time{},
	}
}

// GetInstanceTypes reports offerings that failed recently as unavailable.
func (s *scarce) GetInstanceTypes(context.Context, *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	return s.filtered(func(o offering) bool { return !now.Before(s.unavailable[o]) }), nil
}

// Create launches a node for the claim, with the capacity type that AWS would select (reserved before spot before on-demand). It returns an
// InsufficientCapacityError if the scarcity file excludes all offerings.
func (s *scarce) Create(ctx context.Context, claim *v1.NodeClaim) (*v1.NodeClaim, error) {
	gone, err := s.exhausted(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	candidates := s.candidates(claim)
	has := map[offering]bool{}
	names := map[string]bool{}
	for _, o := range candidates {
		if gone(o) {
			s.unavailable[o] = time.Now().Add(s.pause)
			continue
		}
		has[o], names[o.instanceType] = true, true
	}
	s.mu.Unlock()
	if len(has) == 0 {
		return nil, cloudprovider.NewInsufficientCapacityError(fmt.Errorf("the scarcity file excludes all %d offerings, the first %v",
			len(candidates), first(candidates)))
	}
	left := s.filtered(func(o offering) bool { return has[o] })
	return kwok.NewCloudProvider(ctx, s.kube, left).Create(ctx, narrowed(claim, names))
}

// candidates returns the offerings of one capacity type that a launch for the claim can try. It omits offerings that are reported as
// unavailable.
func (s *scarce) candidates(claim *v1.NodeClaim) []offering {
	requirements := scheduling.NewNodeSelectorRequirementsWithMinValues(claim.Spec.Requirements...)
	byCapacityType := map[string][]offering{}
	now := time.Now()
	for _, it := range s.types {
		if !requirements.Get(corev1.LabelInstanceTypeStable).Has(it.Name) {
			continue
		}
		for _, of := range it.Offerings.Compatible(requirements) {
			o := offering{it.Name, of.CapacityType(), of.Zone()}
			if !now.Before(s.unavailable[o]) {
				byCapacityType[o.capacityType] = append(byCapacityType[o.capacityType], o)
			}
		}
	}
	for _, capacityType := range []string{v1.CapacityTypeReserved, v1.CapacityTypeSpot} {
		if offerings := byCapacityType[capacityType]; len(offerings) > 0 {
			return offerings
		}
	}
	return byCapacityType[v1.CapacityTypeOnDemand]
}

// exhausted reads the scarcity file and the nodes. The returned function reports whether a shortage prevents another node of an offering.
func (s *scarce) exhausted(ctx context.Context) (func(offering) bool, error) {
	var shortages []shortage
	text, err := os.ReadFile(s.file)
	if err != nil && s.file != "" && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &shortages); err != nil {
			return nil, fmt.Errorf("%s: %w", s.file, err)
		}
	}
	nodes := &corev1.NodeList{}
	if err := s.kube.List(ctx, nodes); err != nil {
		return nil, err
	}
	live := make([]int, len(shortages))
	for _, node := range nodes.Items {
		l := node.Labels
		o := offering{l[corev1.LabelInstanceTypeStable], l[v1.CapacityTypeLabelKey], l[corev1.LabelTopologyZone]}
		for i, sh := range shortages {
			if sh.matches(o) {
				live[i]++
			}
		}
	}
	return func(o offering) bool {
		for i, sh := range shortages {
			if sh.matches(o) && live[i] >= sh.Limit {
				return true
			}
		}
		return false
	}, nil
}

// filtered returns copies of the instance types, with offerings available only if keep returns true. It copies them because Karpenter
// caches the originals.
func (s *scarce) filtered(keep func(offering) bool) []*cloudprovider.InstanceType {
	var out []*cloudprovider.InstanceType
	for _, it := range s.types {
		c := &cloudprovider.InstanceType{}
		it.DeepCopyInto(c)
		for _, of := range c.Offerings {
			of.Available = of.Available && keep(offering{c.Name, of.CapacityType(), of.Zone()})
		}
		out = append(out, c)
	}
	return out
}

// narrowed returns the claim without the instance types that have no available offering, because the KWOK provider fails for them.
func narrowed(claim *v1.NodeClaim, names map[string]bool) *v1.NodeClaim {
	out := claim.DeepCopy()
	for i, r := range out.Spec.Requirements {
		if r.Key != corev1.LabelInstanceTypeStable {
			continue
		}
		var left []string
		for _, v := range r.Values {
			if names[v] {
				left = append(left, v)
			}
		}
		out.Spec.Requirements[i].Values = left
	}
	return out
}

func first(offerings []offering) any {
	if len(offerings) == 0 {
		return "missing: all failed lately"
	}
	return offerings[0]
}
