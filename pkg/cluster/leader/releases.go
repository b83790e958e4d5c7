package leader

import (
	"context"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	releaseCheckInterval = 5 * time.Second // how long Leads returns a stored result without reading the Lease again
	releaseCheckTimeout  = 10 * time.Second
	// releaseExpiryGrace is added to the duration of another release's Lease, because the pod of that release may be restarting.
	releaseExpiryGrace = 30 * time.Second
)

// Releases reports whether other releases of gpuscaler lead, by their Leases.
type Releases struct {
	client kubernetes.Interface
	own    string

	mu    sync.Mutex
	known map[string]release // key: NAMESPACE/NAME of the Lease
}

type release struct {
	at  time.Time
	why string // why the release is assumed to lead; empty: the release does not lead
}

// NewReleases returns a Releases. own is the Lease of this release, NAMESPACE/NAME. If own is empty, Leads always returns "".
func NewReleases(client kubernetes.Interface, own string) *Releases {
	return &Releases{client: client, own: own, known: map[string]release{}}
}

// Own returns the Lease of this release, NAMESPACE/NAME.
func (r *Releases) Own() string { return r.own }

// Leads returns the reason why the release with the given Lease (NAMESPACE/NAME) is assumed to lead. It returns "" if that release does not
// lead, if that release is this release, or if lease is empty. Leads stores each result for five seconds.
func (r *Releases) Leads(ctx context.Context, lease string) string {
	if r.own == "" || lease == "" || lease == r.own {
		return ""
	}
	now := time.Now() // may use the clock: now is compared with the renewal time in the other release's Lease
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.known[lease]; ok && now.Sub(known.at) < releaseCheckInterval {
		return known.why
	}
	why := r.read(ctx, lease, now)
	r.known[lease] = release{now, why}
	return why
}

// read reads the Lease of another release and returns the reason why that release is assumed to lead, or "". A release whose Lease cannot
// be read is assumed to lead.
func (r *Releases) read(ctx context.Context, lease string, now time.Time) string {
	namespace, name, ok := strings.Cut(lease, "/")
	if !ok {
		return "which is not NAMESPACE/NAME"
	}
	ctx, cancel := context.WithTimeout(ctx, releaseCheckTimeout)
	defer cancel()
	found, err := r.client.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		return "which cannot be read: " + err.Error()
	}
	s := found.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return ""
	}
	if now.Sub(s.RenewTime.Time) > time.Duration(*s.LeaseDurationSeconds)*time.Second+releaseExpiryGrace {
		return ""
	}
	return "held by " + *s.HolderIdentity
}
