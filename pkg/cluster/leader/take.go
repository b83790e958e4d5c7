package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

const (
	takenDuration      = 30 * time.Second // duration of a Lease that a command holds
	takenRenewInterval = 10 * time.Second // a third of takenDuration
	takenRetryInterval = 2 * time.Second  // pause after a renewal that failed
)

// Taking takes the controller's Lease for a command, so that no replica leads while the command works.
type Taking struct {
	Client   kubernetes.Interface
	Lease    types.NamespacedName
	Identity string // identity of the command in the Lease
	Log      *slog.Logger
	// Expire is for the case that the controller is uninstalled after the command. The function release, which Take returns, then does not
	// release the Lease. Until the Lease expires after 30 seconds, no replica leads.
	Expire bool
}

// Take replaces the holder in the Lease, waits until the previous holder's Lease would have expired, and renews the Lease until the
// returned function release is called. The returned context ends when the Lease is lost, for example because another replica takes it.
func (t Taking) Take(ctx context.Context) (held context.Context, release func(), err error) {
	before, err := t.write(ctx, true)
	if err != nil {
		return nil, nil, err
	}
	if s := before.Spec; s.HolderIdentity != nil && *s.HolderIdentity != "" && s.LeaseDurationSeconds != nil && s.RenewTime != nil {
		age := time.Since(s.RenewTime.Time) // may use the clock: compares with the renewal time in the Lease
		remaining := time.Duration(*s.LeaseDurationSeconds)*time.Second - age
		if remaining > 0 {
			t.Log.Info("waiting for the previous Lease to expire", "lease", t.Lease.String(), "holder", *s.HolderIdentity,
				"for", remaining.Round(time.Second).String())
			select {
			case <-time.After(remaining): // may use the clock: waits for the previous Lease to expire
			case <-ctx.Done():
				t.release()
				return nil, nil, ctx.Err()
			}
		}
	}
	held, stop := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { t.renew(held, stop) })
	return held, func() {
		stop()
		renewing.Wait()
		if !t.Expire {
			t.release()
		}
	}, nil
}

// renew renews the Lease until ctx ends. It calls lost if another replica holds the Lease, or if no renewal succeeded for two thirds of the
// Lease's duration.
func (t Taking) renew(ctx context.Context, lost func()) {
	renewed, pause := time.Now(), takenRenewInterval // may use the clock: the validity of the Lease
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause): // may use the clock: paces the renewal of the Lease
		}
		_, err := t.write(ctx, false)
		switch now := time.Now(); { // may use the clock: the validity of the Lease
		case err == nil:
			renewed, pause = now, takenRenewInterval
		case ctx.Err() != nil:
			return
		case errors.Is(err, errOtherHolder), now.Sub(renewed) >= takenDuration-takenRenewInterval:
			t.Log.Error("the Lease was lost; stopping", "lease", t.Lease.String(), "error", err)
			lost()
			return
		default:
			t.Log.Warn("the Lease was not renewed; trying again", "lease", t.Lease.String(), "error", err)
			pause = takenRetryInterval
		}
	}
}

// errOtherHolder is the error that write returns if another replica holds the Lease.
var errOtherHolder = errors.New("another replica is the holder")

// write makes this command the holder and returns the previous version of the Lease. If force is false and the Lease has another holder, it
// returns errOtherHolder. If a replica writes the Lease at the same time, as a leader does every few seconds, write tries again.
func (t Taking) write(ctx context.Context, force bool) (before *coordinationv1.Lease, err error) {
	ctx, cancel := context.WithTimeout(ctx, takenRenewInterval)
	defer cancel()
	concurrent := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	err = retry.OnError(retry.DefaultBackoff, concurrent, func() error {
		before, err = t.writeOnce(ctx, force)
		return err
	})
	return before, err
}

func (t Taking) writeOnce(ctx context.Context, force bool) (before *coordinationv1.Lease, err error) {
	leases := t.Client.CoordinationV1().Leases(t.Lease.Namespace)
	lease, err := leases.Get(ctx, t.Lease.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: t.Lease.Namespace, Name: t.Lease.Name}}
		t.setHolder(lease)
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
		return &coordinationv1.Lease{}, err
	}
	if err != nil {
		return nil, err
	}
	before = lease.DeepCopy()
	if h := lease.Spec.HolderIdentity; !force && h != nil && *h != t.Identity {
		return nil, fmt.Errorf("%w: %s", errOtherHolder, *h)
	}
	t.setHolder(lease)
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return before, err
}

func (t Taking) setHolder(lease *coordinationv1.Lease) {
	now, seconds := metav1.NowMicro(), int32(takenDuration/time.Second) // may use the clock: the Lease records when it was renewed
	s := &lease.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity != t.Identity {
		transitions := int32(1)
		if s.LeaseTransitions != nil {
			transitions += *s.LeaseTransitions
		}
		s.LeaseTransitions, s.AcquireTime = &transitions, &now
	}
	s.HolderIdentity, s.RenewTime, s.LeaseDurationSeconds = &t.Identity, &now, &seconds
}

// release clears the holder in the Lease if the holder is this command.
func (t Taking) release() {
	ctx, cancel := context.WithTimeout(context.Background(), takenRenewInterval)
	defer cancel()
	leases := t.Client.CoordinationV1().Leases(t.Lease.Namespace)
	lease, err := leases.Get(ctx, t.Lease.Name, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != t.Identity {
		return
	}
	empty, second := "", int32(1)
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &empty, &second
	if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		t.Log.Warn("the Lease was not released; a replica can lead when it has expired", "lease", t.Lease.String(), "error", err)
	}
}
