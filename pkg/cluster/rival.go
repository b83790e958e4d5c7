package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// HolderAnnotation stands beside the record on a NodePool and names the Lease of the release that overrides its fields.
	HolderAnnotation = "gpuscaler.io/holder"

	rivalEvery = 5 * time.Second // how long an answer about another release's Lease is used again
	// rivalGrace is how long a Lease that is not renewed still counts, beyond its own duration: its holder may be restarting.
	rivalGrace = 30 * time.Second
)

// RivalError says that another release leads and overrides a NodePool that a capacity group of ours names. Both write as one field
// manager, so each would restore what the other one overrides.
type RivalError struct{ Pool, Group, Holder, Why string }

func (e *RivalError) Error() string {
	return fmt.Sprintf("another gpuscaler release (Lease %s, %s) overrides NodePool %s, which capacity group %s names here: "+
		"remove the NodePool from one of the two PlatformConfigs, or uninstall one of the releases", e.Holder, e.Why, e.Pool, e.Group)
}

// rivals remembers whether the holders of NodePools lead.
type rivals struct {
	cluster *Cluster

	mu    sync.Mutex
	known map[string]rival // by holder
}

type rival struct {
	at  time.Time
	why string // why it counts as leading; empty where it does not
}

// Rival returns a RivalError while another release leads and overrides a NodePool of our capacity groups. This process must not lead then.
// The record of a release that no longer leads is taken over, as the next leader of one release takes over the last one's.
func (c *Cluster) Rival(ctx context.Context) error {
	if c.nodes == nil || c.options.Release == "" {
		return nil
	}
	for _, g := range c.options.Groups.Groups() {
		for i := range g.Pools {
			c.nodes.mu.RLock()
			facts := c.nodes.pools[g.Pools[i].Name]
			c.nodes.mu.RUnlock()
			if facts == nil {
				continue
			}
			if why := c.rivals.of(ctx, facts); why != "" {
				err := &RivalError{Pool: g.Pools[i].Name, Group: g.Name, Holder: facts.holder, Why: why}
				c.events.send(facts.reference(), corev1.EventTypeWarning, ReasonAnotherRelease, err.Error())
				return err
			}
		}
	}
	return nil
}

// of returns why another release that holds the NodePool counts as leading; empty where none does.
func (r *rivals) of(ctx context.Context, f *poolFacts) string {
	own := r.cluster.options.Release
	if own == "" || f.view.Record == "" || f.holder == "" || f.holder == own {
		return ""
	}
	now := time.Now() // I/O edge: the other release's Lease is stamped by its clock
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.known[f.holder]; ok && now.Sub(known.at) < rivalEvery {
		return known.why
	}
	why := r.leads(ctx, f.holder, now)
	r.known[f.holder] = rival{now, why}
	return why
}

// leads asks the API server about another release's Lease. A Lease that cannot be read counts as held.
func (r *rivals) leads(ctx context.Context, holder string, now time.Time) string {
	namespace, name, ok := strings.Cut(holder, "/")
	if !ok {
		return "which is not NAMESPACE/NAME"
	}
	ctx, cancel := context.WithTimeout(ctx, handsTimeout)
	defer cancel()
	lease, err := r.cluster.typed.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		return "which cannot be read: " + err.Error()
	}
	s := lease.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return ""
	}
	if now.Sub(s.RenewTime.Time) > time.Duration(*s.LeaseDurationSeconds)*time.Second+rivalGrace {
		return ""
	}
	return "held by " + *s.HolderIdentity
}
