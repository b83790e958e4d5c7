package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
)

// LeaderLabel marks the one pod to which the Services send traffic.
const LeaderLabel = "gpuscaler.io/leader"

// leaderManager owns the label, apart from whatever else we write.
const leaderManager = "gpuscaler-leader"

const (
	markRetry = time.Second      // no traffic reaches us without the mark
	markEvery = 15 * time.Second // a mark that somebody removed, or left behind, lasts this long at most
)

// leaderMark keeps the leader label on one pod.
type leaderMark struct {
	client                   kubernetes.Interface
	namespace, pod, selector string
	valid                    func() bool // the Lease can still be ours
	log                      *slog.Logger
}

// keep marks our pod and takes the mark from every other, again and again until ctx ends: a leader that was killed cannot take
// its own mark away, and half of the traffic would go to the dead.
func (m *leaderMark) keep(ctx context.Context) {
	for {
		wait := markEvery
		if err := m.set(ctx); err != nil {
			wait = markRetry
			if ctx.Err() == nil {
				m.log.Warn("cannot mark the leader's pod; no traffic reaches it", "pod", m.pod, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait): // I/O edge: paces retries
		}
	}
}

func (m *leaderMark) set(ctx context.Context) error {
	if !m.valid() {
		return errors.New("the lease was not renewed lately: the mark may be another's")
	}
	selector := LeaderLabel + "=true"
	if m.selector != "" {
		selector += "," + m.selector
	}
	marked, err := m.client.CoreV1().Pods(m.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	set := false
	for i := range marked.Items {
		p := &marked.Items[i]
		if p.Name == m.pod {
			set = true
			continue
		}
		if err := m.clear(ctx, p.Name, p.UID); err != nil {
			return err
		}
		m.log.Info("took the leader's mark from a former leader", "pod", p.Name)
	}
	if set {
		return nil
	}
	return m.markOwn(ctx)
}

func (m *leaderMark) markOwn(ctx context.Context) error {
	pods := m.client.CoreV1().Pods(m.namespace)
	own, err := pods.Get(ctx, m.pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	// With the UID, server-side apply refuses to make a new pod where ours has just gone.
	mark := applycore.Pod(m.pod, m.namespace).WithUID(own.UID).WithLabels(map[string]string{LeaderLabel: "true"})
	_, err = pods.Apply(ctx, mark, metav1.ApplyOptions{FieldManager: leaderManager, Force: true})
	return err
}

// clearOwn takes the mark from our own pod where it carries one.
func (m *leaderMark) clearOwn(ctx context.Context) {
	own, err := m.client.CoreV1().Pods(m.namespace).Get(ctx, m.pod, metav1.GetOptions{})
	if err == nil && own.Labels[LeaderLabel] != "" {
		err = m.clear(ctx, own.Name, own.UID)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		m.log.Warn("cannot take the leader's mark from our pod; the next leader will", "pod", m.pod, "error", err)
	}
}

// clear takes the label away whoever owns it: two marked pods would share the traffic.
func (m *leaderMark) clear(ctx context.Context, pod string, uid types.UID) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": uid, "labels": map[string]any{LeaderLabel: nil},
	}})
	if err != nil {
		return fmt.Errorf("leader label: %w", err)
	}
	_, err = m.client.CoreV1().Pods(m.namespace).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: leaderManager})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // that pod is gone, and its mark with it
	}
	return err
}
