package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/cluster"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/leader"
)

// Names of two releases of gpuscaler, as NAMESPACE/LEASE, and of the only replica of the second release. By mistake, both releases have the
// same capacity groups. Both write with the same field manager.
const (
	release       = releaseNamespace + "/" + leaseName
	secondRelease = "gpu-platform/" + leaseName
	secondName    = "second-0"
)

// otherReleaseInterval is the time between two checks for another release, as in cmd/gpuscaler/controller.
const otherReleaseInterval = 5 * time.Second

func releaseOf(name string) string {
	if name == secondName {
		return secondRelease
	}
	return release
}

// leaseOf returns the Lease of a release.
func (s *simulation) leaseOf(release string) *lease {
	if release == secondRelease {
		return &s.secondLease
	}
	return &s.lease
}

// installSecond installs the second release. If alone is true, the replicas of the first release are killed and do not run for two
// minutes, so that the second release takes over the records of the first release.
func (s *simulation) installSecond(alone bool) {
	if s.second == nil {
		s.second, s.hasSecond = newReplica(s, secondName), true
	}
	for _, r := range s.replicas {
		if alone && r.up {
			r.kill()
			r.restart = s.now.Add(2 * time.Minute)
		}
	}
}

// uninstallSecond removes the second release. Its replica does not release the Lease, so the Lease remains valid until it expires.
func (s *simulation) uninstallSecond() {
	if s.second != nil {
		s.second.kill()
		s.second.abandon()
		s.second = nil
	}
}

// processes returns the replicas of all releases.
func (s *simulation) processes() []*replica {
	if s.second == nil {
		return s.replicas[:]
	}
	return []*replica{s.replicas[0], s.replicas[1], s.second}
}

// leaseReader is the HTTP transport with which a replica reads Leases. It returns the modeled Leases of both releases.
type leaseReader struct{ replica *replica }

// RoundTrip implements http.RoundTripper.
func (l leaseReader) RoundTrip(request *http.Request) (*http.Response, error) {
	s := l.replica.sim
	if s.now.Before(l.replica.cut) {
		return nil, errTimeout
	}
	namespace := path.Base(path.Dir(path.Dir(request.URL.Path)))
	model := s.leaseOf(namespace + "/" + path.Base(request.URL.Path))
	code, object := http.StatusOK, any(&coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &model.holder, RenewTime: new(metav1.NewMicroTime(model.renewed)),
			LeaseDurationSeconds: new(int32(leaseDuration / time.Second))}})
	if model.serial == 0 {
		missing := apierrors.NewNotFound(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, leaseName)
		code, object = int(missing.ErrStatus.Code), &missing.ErrStatus
	}
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: http.Header{"Content-Type": {"application/json"}},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body))}, nil
}

// otherReleases returns the product's reader of the Leases of other releases. The first call creates it.
func (r *replica) otherReleases() *leader.Releases {
	if r.releases == nil {
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api", Transport: leaseReader{r}, QPS: 50, Burst: 100,
			ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
		if err != nil {
			panic(err)
		}
		r.releases = leader.NewReleases(client, r.release)
	}
	return r.releases
}

// overriddenByOther returns the reason why gpuscaler assumes that another release, which overrides the NodePool, has a leader. It returns
// "" if there is no such release.
func (r *replica) overriddenByOther(ctx context.Context, p *karpenter.NodePool) string {
	if !r.sim.hasSecond {
		return ""
	}
	return cluster.OverriddenByOther(ctx, r.otherReleases(), p)
}

// otherRelease returns an error if this process must not lead, because another leading release overrides a NodePool of this process.
func (r *replica) otherRelease() error {
	if !r.sim.hasSecond {
		return nil
	}
	if err := cluster.FindOtherRelease(context.Background(), r.otherReleases(), r.policies.Groups(), r.nodes.NodePool); err != nil {
		return err
	}
	return nil
}

// mayCampaign reports whether no other release prevents this process from competing for its Lease.
func (c *modelElection) mayCampaign() bool {
	r := c.replica
	if c.campaigns || r.sim.now.Sub(c.checked) < otherReleaseInterval {
		return c.campaigns
	}
	c.checked = r.sim.now
	err := r.otherRelease()
	if c.campaigns = err == nil; err != nil {
		r.sim.trace("%s: does not lead: %v", r.name, err)
	}
	return c.campaigns
}

// watchOtherReleases ends a leading process if another leading release overrides its NodePools. If starts is true, the process has just
// become the leader and ends at once. If starts is false, it first restores the limits that it set.
func (c *modelElection) watchOtherReleases(starts bool) {
	r := c.replica
	if !starts && r.sim.now.Sub(c.checked) < otherReleaseInterval || !r.stopping.IsZero() {
		return
	}
	c.checked = r.sim.now
	err := r.otherRelease()
	if err == nil {
		return
	}
	r.sim.trace("%s: leads no more: %v", r.name, err)
	if starts {
		c.endRounds()
		r.kill()
		return
	}
	r.stopping = r.sim.now.Add(otherReleaseInterval)
}

// releaseTime is how long two releases may act on the same NodePools. It is longer than the interval between two checks of the other
// release's Lease, and longer than a pause after which the paused process still assumes that its Lease is valid.
const releaseTime = 30 * time.Second

// heldByOther reports whether the record on a NodePool belongs to a release other than the release of process r. It returns true only if
// the other release has led for more than releaseTime.
func (c *checker) heldByOther(r *replica, annotations map[string]string) bool {
	holder := annotations[karpenter.HolderAnnotation]
	if annotations[karpenter.RecordAnnotation] == "" || holder == "" || holder == r.release {
		return false
	}
	l, now := c.sim.leaseOf(holder), c.sim.now
	return l.holder != "" && now.Sub(l.renewed) < leaseDuration && now.Sub(l.acquired) > releaseTime
}

// oneRelease checks that no process leads for more than releaseTime while another leading release overrides its NodePools.
func (c *checker) oneRelease() {
	s := c.sim
	for _, r := range s.processes() {
		contested := ""
		if r.up && r.lease.leading() && r.lag == 0 && !s.now.Before(r.paused) && !s.now.Before(r.cut) {
			for _, g := range r.policies.Groups() {
				for i := range g.Pools {
					if u := s.nodePool(s.poolNamed(g.Pools[i].Name)); u != nil && c.heldByOther(r, u.GetAnnotations()) {
						contested = u.GetName()
					}
				}
			}
		}
		if contested == "" {
			delete(c.contested, r)
		} else if c.contested[r].IsZero() {
			c.contested[r] = s.now
		} else if since := s.now.Sub(c.contested[r]); since > releaseTime {
			c.fail(oneRelease, "%s leads although another release overrides NodePool %s for %s", r.name, contested, since)
		}
	}
}
