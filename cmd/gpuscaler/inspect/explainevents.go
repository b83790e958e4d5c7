package inspect

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/printable"
)

// unknownTimeError is returned if the leader's history does not contain the time of --at. answer is the leader's message.
type unknownTimeError struct{ answer string }

func (e *unknownTimeError) Error() string { return e.answer }

// eventExplanation contains the Kubernetes Events about a target just before and just after a time. explain prints it if the leader's
// history does not contain that time. A new leader does not have the history of the previous leader, but Events remain in the API server,
// by default for an hour.
type eventExplanation struct {
	Policy string     `json:"policy"`
	At     time.Time  `json:"at"`              // the time of --at
	Before eventOnce  `json:"before"`          // the last Event at or before At
	After  *eventOnce `json:"after,omitempty"` // the first Event after At; nil: none
	Source string     `json:"source"`          // always "events"
}

// eventOnce is one Event about a target.
type eventOnce struct {
	Posted time.Time `json:"posted"`
	Why    string    `json:"why"` // text that begins with the targets, "6 -> 9: ", and contains the cause
}

// WriteText writes the Events as text. It also states that Events can be up to 30 seconds late, and that the previous leader's log has
// every change.
func (e *eventExplanation) WriteText(out io.Writer, zone *time.Location) error {
	lines := []eventOnce{e.Before}
	if e.After != nil {
		lines = append(lines, *e.After)
	}
	fmt.Fprintf(out, "%s around %s, from Kubernetes Events, because the leader's history does not contain that time:\n", e.Policy,
		e.At.In(zone).Format("15:04:05 MST"))
	for _, line := range lines {
		fmt.Fprintf(out, "  %s  %s\n", line.Posted.In(zone).Format("15:04:05"), line.Why)
	}
	_, err := fmt.Fprintf(out, "\nA workload has at most one Event in 30 seconds, so an Event can follow its change that late. "+
		"The previous leader's log\nhas every change with its signals and rules: gpuscaler explain %s --at ... --from LOG\n", e.Policy)
	return err
}

// fromEvents returns the Events about the policy's target around the time of --at. If the cluster cannot be read or has no Event up to that
// time, it returns the error missing, or an error that wraps missing.
func (o *explainOptions) fromEvents(ctx context.Context, name string, missing *unknownTimeError) (*eventExplanation, error) {
	if o.leader.server != "" && o.leader.kubeconfig == "" && o.leader.context == "" {
		return nil, missing // with --server, the leader may be outside of any cluster, for example the demo
	}
	at, err := explain.ParseTime(o.at, time.Now(), time.Local)
	if err != nil {
		return nil, err
	}
	config, err := o.leader.config()
	if err != nil {
		return nil, missing
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, missing
	}
	found, err := eventsAround(ctx, client, name, at)
	if err != nil {
		return nil, fmt.Errorf("%w\nEvents of the workload: %w", missing, err)
	}
	if found.Before.Posted.IsZero() {
		return nil, found.noneBefore(missing)
	}
	return found, nil
}

// noneBefore returns the error for the case that no Event exists at or before the time of --at. If there is a later Event, the error
// contains its text. This text begins with the target before the later change, which can be the target at the time of --at.
func (e *eventExplanation) noneBefore(missing *unknownTimeError) error {
	next := ""
	if e.After != nil {
		next = "\nThe first Event after that time: " + e.After.Posted.In(e.At.Location()).Format("15:04:05 MST") + " " + e.After.Why
	}
	return fmt.Errorf("%w\nno Event of the workload is that old: its target had not changed before, or the API server has deleted "+
		"the Event (by default after an hour)%s\nThe previous leader's log has every change: gpuscaler explain %s --at ... --from LOG",
		missing, next, e.Policy)
}

// eventsAround returns the last Event about a policy's target up to a time, and the first Event after this time.
func eventsAround(ctx context.Context, client kubernetes.Interface, policy string, at time.Time) (*eventExplanation, error) {
	namespace, _, _ := strings.Cut(policy, "/")
	found := eventExplanation{Policy: policy, At: at, Source: "events"}
	list := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) {
		return client.EventsV1().Events(namespace).List(ctx, o)
	}))
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		e := object.(*eventsv1.Event)
		why, ours := aboutTarget(e, policy)
		once := eventOnce{Posted: e.EventTime.Time, Why: printable.Clean(why)}
		switch {
		case !ours:
		case !once.Posted.After(at):
			if once.Posted.After(found.Before.Posted) {
				found.Before = once
			}
		case found.After == nil || once.Posted.Before(found.After.Posted):
			found.After = &once
		}
		return nil
	})
	return &found, err
}

// aboutTarget returns the text of an Event that gpuscaler wrote about the policy's target or its missing signals, without the policy's
// name. ours is false for every other Event.
func aboutTarget(e *eventsv1.Event, policy string) (why string, ours bool) {
	if e.ReportingController != events.ReportingController || e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
		return "", false
	}
	switch e.Reason {
	case events.TargetChanged, events.SignalsMissing, events.SignalsRecovered:
		return strings.CutSuffix(e.Note, " (policy "+policy+")")
	}
	return "", false
}
