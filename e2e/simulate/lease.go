package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/schedule"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/leader"
)

// lease is the Lease of a release in the API server, and the leader labels of gpuscaler's pods.
type lease struct {
	holder   string
	acquired time.Time // last time at which the holder changed
	renewed  time.Time
	serial   int
	object   *coordinationv1.Lease
	labeled  map[string]bool // whether each pod has the leader label, by pod
}

// holderIs reports whether a replica holds the Lease in the API server.
func (s *simulation) holderIs(r *replica) bool {
	l := s.leaseOf(r.release)
	return l.holder == r.name && s.now.Sub(l.renewed) < leaseDuration
}

// answer returns the API server's response to a request of the election: a status code and an object.
func (l *lease) answer(s *simulation, request *http.Request) (code int, object any) {
	name := path.Base(request.URL.Path)
	switch {
	case strings.Contains(request.URL.Path, "/leases"):
		return l.answerLease(s, request)
	case name == "pods":
		list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		for _, r := range s.replicas {
			if l.labeled[r.name] {
				list.Items = append(list.Items, *l.pod(r.name))
			}
		}
		return http.StatusOK, list
	case request.Method == http.MethodPatch:
		l.labeled[name] = request.Header.Get("Content-Type") == string(types.ApplyPatchType)
		s.trace("pod %s: leader label %t", name, l.labeled[name])
	}
	return http.StatusOK, l.pod(name)
}

func (l *lease) pod(name string) *corev1.Pod {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: apiserver.KindPod},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: releaseNamespace, UID: types.UID("uid-" + name)}}
	if l.labeled[name] {
		pod.Labels = map[string]string{leader.Label: "true"}
	}
	return pod
}

// answerLease returns the response to a read, a creation or an update of the Lease. An update with an outdated resourceVersion fails with a
// conflict.
func (l *lease) answerLease(s *simulation, request *http.Request) (code int, object any) {
	resource := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	refuse := func(err *apierrors.StatusError) (int, any) { return int(err.ErrStatus.Code), &err.ErrStatus }
	if request.Method == http.MethodGet {
		if l.object == nil {
			return refuse(apierrors.NewNotFound(resource, leaseName))
		}
		return http.StatusOK, l.object
	}
	next := &coordinationv1.Lease{}
	body, err := io.ReadAll(request.Body)
	if err == nil {
		err = json.Unmarshal(body, next)
	}
	switch {
	case err != nil:
		panic(fmt.Errorf("%s of the Lease: %w: %q", request.Method, err, body))
	case request.Method == http.MethodPost && l.object != nil:
		return refuse(apierrors.NewAlreadyExists(resource, leaseName))
	case request.Method == http.MethodPut && next.ResourceVersion != l.object.ResourceVersion:
		return refuse(apierrors.NewConflict(resource, leaseName, errTimeout))
	}
	holder := ""
	if next.Spec.HolderIdentity != nil {
		holder = *next.Spec.HolderIdentity
	}
	if holder != l.holder {
		s.trace("the holder of the Lease changes from %q to %q", l.holder, holder)
		l.acquired = s.now
	}
	l.serial++
	next.ResourceVersion = strconv.Itoa(l.serial)
	next.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	l.holder, l.renewed, l.object = holder, s.now, next
	return http.StatusOK, next
}

// labels checks that the leader's pod, and no other pod, has the leader label, by which the Services select pods. It checks nothing for 20
// seconds after a change of the holder.
func (c *checker) labels() {
	if !c.sim.realElection() {
		return
	}
	l := &c.sim.lease
	i := slices.IndexFunc(c.sim.replicas[:], func(r *replica) bool { return r.name == l.holder && r.lease.leading() })
	if i < 0 || c.sim.now.Sub(l.acquired) < labelTime {
		return
	}
	r := c.sim.replicas[i]
	if since := c.healthy[r]; since.IsZero() || c.sim.now.Sub(since) < labelTime {
		return
	}
	for _, other := range c.sim.replicas {
		if l.labeled[other.name] != (other == r) {
			c.fail(leaderLabeled, "%s leads for %s; the label of %s is %t", r.name, c.sim.now.Sub(l.acquired), other.name, l.labeled[other.name])
		}
	}
}

// labelTime is the longest allowed time until a new leader has corrected the labels. A leader checks the labels every 15 seconds.
const labelTime = 20 * time.Second

// election is the leader election of one process.
type election interface {
	// leading reports whether the process may write and serve.
	leading() bool
	// step runs one second of a modeled election; the real election runs in its own goroutines.
	step()
	// stop is called when the process receives SIGTERM. endRounds is called after the last round of Engine.Shutdown.
	stop()
	endRounds()
	// ended reports whether the election has ended after SIGTERM.
	ended() bool
	// kill ends the election without a further request.
	kill()
}

// newElection returns the election of a process. Most seeds run modelElection, because the election of client-go uses as much CPU time as
// everything else in a run.
func newElection(r *replica) election {
	switch {
	case r.name == freshName:
		return alwaysLeads{}
	case r.sim.realElection() && r.release == release:
		return newCampaign(r)
	}
	return &modelElection{replica: r}
}

func (s *simulation) realElection() bool { return schedule.RealElection(s.seed) }

// alwaysLeads is the election of the process that starts at the end of a run for comparison. This process has no competitor for the
// Lease.
type alwaysLeads struct{}

func (alwaysLeads) leading() bool { return true }
func (alwaysLeads) step()         {}
func (alwaysLeads) stop()         {}
func (alwaysLeads) endRounds()    {}
func (alwaysLeads) ended() bool   { return false }
func (alwaysLeads) kill()         {}

const (
	renewDeadline = leaseDuration * 2 / 3
	retryPeriod   = leaseDuration * 2 / 15
)

// modelElection follows the rules of client-go's election and of package leader, without their jitter.
type modelElection struct {
	replica  *replica
	holds    bool
	over     bool      // the process received SIGTERM and released the Lease
	renewed  time.Time // last time at which this process wrote the Lease
	tried    time.Time
	observed int       // serial number of the Lease at the last read
	since    time.Time // time at which this serial number was first read

	campaigns bool      // the process may compete for the Lease, because no other release overrides its NodePools
	checked   time.Time // last time at which the process checked for another release
}

// leading implements the interface election. It returns true if the process holds the Lease and has written it less than leaseDuration ago.
func (c *modelElection) leading() bool {
	return c.holds && c.replica.sim.now.Sub(c.renewed) < leaseDuration
}

// step acquires or renews the Lease when it is due.
func (c *modelElection) step() {
	r, now := c.replica, c.replica.sim.now
	if !r.up {
		return
	}
	if c.holds && now.Sub(c.renewed) >= renewDeadline && (now.Before(r.cut) || now.Sub(c.renewed) >= leaseDuration) {
		c.lose("it was not renewed")
	}
	if c.holds {
		c.watchOtherReleases(false)
	}
	if now.Sub(c.tried) < retryPeriod || now.Before(r.cut) || !c.mayCampaign() {
		return
	}
	c.tried = now
	l := r.sim.leaseOf(r.release)
	if l.serial != c.observed || c.since.IsZero() {
		c.observed, c.since = l.serial, now
	}
	if l.holder != "" && l.holder != r.name {
		if c.holds {
			c.lose("another replica holds it")
		}
		if now.Before(c.since.Add(leaseDuration)) {
			return
		}
	}
	if !r.stopping.IsZero() && !c.holds {
		return
	}
	if l.holder != r.name {
		l.acquired = now
	}
	l.holder, l.renewed, l.serial = r.name, now, l.serial+1
	c.observed, c.since, c.renewed = l.serial, now, now
	if !c.holds {
		c.holds = true
		r.sim.trace("%s: leads", r.name)
		c.watchOtherReleases(true)
	}
}

func (c *modelElection) lose(why string) {
	c.holds = false
	c.replica.leadsNoMore()
	c.replica.sim.trace("%s: leads no more: %s", c.replica.name, why)
}

func (c *modelElection) stop() {}

// endRounds clears the holder of the Lease, so that a standby does not wait for the Lease to expire.
func (c *modelElection) endRounds() {
	if r := c.replica; c.holds && !r.sim.now.Before(r.cut) {
		if l := r.sim.leaseOf(r.release); l.holder == r.name {
			l.holder, l.serial = "", l.serial+1
		}
	}
	c.holds, c.over = false, true
}

func (c *modelElection) ended() bool { return c.over }

func (c *modelElection) kill() {}
