package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	takenFor   = 30 * time.Second // how long others believe that we hold it; renewed three times in that time
	takenRenew = 10 * time.Second
)

// takenLease is the controller's Lease in the hands of a command.
type takenLease struct {
	client   kubernetes.Interface
	name     types.NamespacedName
	identity string
	log      *slog.Logger
	leave    bool // in the end it is left to run out: nobody leads for as long as others believe that we hold it
}

// take overwrites whoever holds the Lease, waits until that one has stopped believing in itself, and keeps the Lease until free is
// called. The context that it returns ends when somebody else takes it.
func (t takenLease) take(ctx context.Context) (held context.Context, free func(), err error) {
	before, err := t.write(ctx, true)
	if err != nil {
		return nil, nil, err
	}
	if s := before.Spec; s.HolderIdentity != nil && *s.HolderIdentity != "" && s.LeaseDurationSeconds != nil && s.RenewTime != nil {
		believes := time.Duration(*s.LeaseDurationSeconds)*time.Second - time.Since(s.RenewTime.Time) // I/O edge: the Lease's own clock
		if believes > 0 {
			t.log.Info("waiting until the controller stands down", "holder", *s.HolderIdentity, "for", believes.Round(time.Second).String())
			select {
			case <-time.After(believes): // I/O edge: waits for the previous lease to expire
			case <-ctx.Done():
				t.free()
				return nil, nil, ctx.Err()
			}
		}
	}
	held, stop := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { t.keep(held, stop) })
	return held, func() {
		stop()
		keeping.Wait()
		if !t.leave {
			t.free()
		}
	}, nil
}

func (t takenLease) keep(ctx context.Context, lost func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(takenRenew): // I/O edge: paces lease renewal
		}
		if _, err := t.write(ctx, false); err != nil && ctx.Err() == nil {
			t.log.Error("the lease was lost", "error", err)
			lost()
			return
		}
	}
}

// write puts our name on the Lease and returns what stood there. Unless it is taken by force, another's name is an error.
func (t takenLease) write(ctx context.Context, force bool) (before *coordinationv1.Lease, err error) {
	leases := t.client.CoordinationV1().Leases(t.name.Namespace)
	ctx, cancel := context.WithTimeout(ctx, takenRenew)
	defer cancel()
	lease, err := leases.Get(ctx, t.name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: t.name.Namespace, Name: t.name.Name}}
		t.sign(lease)
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
		return &coordinationv1.Lease{}, err
	}
	if err != nil {
		return nil, err
	}
	before = lease.DeepCopy()
	if h := lease.Spec.HolderIdentity; !force && h != nil && *h != t.identity {
		return nil, fmt.Errorf("%s holds it now", *h)
	}
	t.sign(lease)
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return before, err
}

func (t takenLease) sign(lease *coordinationv1.Lease) {
	now, seconds := metav1.NowMicro(), int32(takenFor/time.Second) // I/O edge: the Lease's own clock
	s := &lease.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity != t.identity {
		transitions := int32(1)
		if s.LeaseTransitions != nil {
			transitions += *s.LeaseTransitions
		}
		s.LeaseTransitions, s.AcquireTime = &transitions, &now
	}
	s.HolderIdentity, s.RenewTime, s.LeaseDurationSeconds = &t.identity, &now, &seconds
}

// free gives the Lease back, where it is still ours.
func (t takenLease) free() {
	ctx, cancel := context.WithTimeout(context.Background(), takenRenew)
	defer cancel()
	leases := t.client.CoordinationV1().Leases(t.name.Namespace)
	lease, err := leases.Get(ctx, t.name.Name, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != t.identity {
		return
	}
	nobody, short := "", int32(1)
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &nobody, &short
	if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		t.log.Warn("the lease was not given back and will run out", "error", err)
	}
}
