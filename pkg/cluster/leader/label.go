package leader

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

// Label is the label of the leader's pod. The Services of gpuscaler select pods by this label.
const Label = "gpuscaler.io/leader"

// labelManager is the field manager of the leader label. gpuscaler uses other field managers for other fields.
const labelManager = "gpuscaler-leader"

const (
	labelRetryInterval = time.Second      // a failed write is repeated soon, because the leader receives no traffic without the label
	labelCheckInterval = 15 * time.Second // the longest time until a removed label, or a label on another pod, is detected
)

// podLabel keeps the leader label on one pod.
type podLabel struct {
	client                   kubernetes.Interface
	namespace, pod, selector string
	valid                    func() bool // reports whether this process may still hold the Lease
	log                      *slog.Logger
}

// keep sets the label on the pod of this process and removes it from every other pod of the release. It repeats both until ctx ends,
// because a leader that was killed cannot remove its own label. While two pods have the label, the Services send half of the traffic to the
// pod that does not lead.
func (p *podLabel) keep(ctx context.Context) {
	for {
		wait := labelCheckInterval
		if err := p.set(ctx); err != nil {
			wait = labelRetryInterval
			if ctx.Err() == nil {
				p.log.Warn("the leader's pod was not labeled, so no traffic reaches it; trying again", "pod", p.pod, "label", Label, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait): // may use the clock: paces retries
		}
	}
}

func (p *podLabel) set(ctx context.Context) error {
	if !p.valid() {
		return errors.New("the Lease was not renewed in time: another pod may be the leader")
	}
	selector := Label + "=true"
	if p.selector != "" {
		selector += "," + p.selector
	}
	labeled, err := p.client.CoreV1().Pods(p.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	set := false
	for i := range labeled.Items {
		pod := &labeled.Items[i]
		if pod.Name == p.pod {
			set = true
			continue
		}
		if err := p.clear(ctx, pod.Name, pod.UID); err != nil {
			return err
		}
		p.log.Info("removed the leader label from a previous leader", "pod", pod.Name, "label", Label)
	}
	if set {
		return nil
	}
	return p.setOwn(ctx)
}

func (p *podLabel) setOwn(ctx context.Context) error {
	pods := p.client.CoreV1().Pods(p.namespace)
	own, err := pods.Get(ctx, p.pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	// the UID prevents the apply from creating a pod if this pod was deleted
	label := applycore.Pod(p.pod, p.namespace).WithUID(own.UID).WithLabels(map[string]string{Label: "true"})
	_, err = pods.Apply(ctx, label, metav1.ApplyOptions{FieldManager: labelManager, Force: true})
	return err
}

// clearOwn removes the label from the pod of this process.
func (p *podLabel) clearOwn(ctx context.Context) {
	own, err := p.client.CoreV1().Pods(p.namespace).Get(ctx, p.pod, metav1.GetOptions{})
	if err == nil && own.Labels[Label] != "" {
		err = p.clear(ctx, own.Name, own.UID)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		p.log.Warn("the leader label was not removed from this pod; the next leader removes it", "pod", p.pod, "label", Label, "error", err)
	}
}

// clear removes the label from a pod even if another field manager owns the label, because two labeled pods would share the traffic.
func (p *podLabel) clear(ctx context.Context, pod string, uid types.UID) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": uid, "labels": map[string]any{Label: nil},
	}})
	if err != nil {
		return fmt.Errorf("leader label: %w", err)
	}
	_, err = p.client.CoreV1().Pods(p.namespace).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: labelManager})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the pod with this UID was deleted, and the label with it
	}
	return err
}
