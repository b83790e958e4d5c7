package line

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// With the feature gate HPAScaleToZero, an HPA with minReplicas 0 scales to zero and from zero. The condition ScaledToZero shows that the
// HPA did this. The HPA does not change a workload that a user scaled to zero. gpuscaler must serve the target and must write no
// replicas, although the policy has activate: true.
func TestHPAWithMinReplicasZeroIsTheOnlyWriterOfReplicas(t *testing.T) {
	t.Parallel()
	ns := suite.Namespace(t, "zero")
	list := goredis.NewClient(&goredis.Options{Addr: redis})
	defer list.Close()
	deployment := workload.Deployment(ns, "embed", 1)
	s := suite.Workload(t, deployment, `
minReplicas: 0
maxReplicas: 8
cooldownPeriod: 3s
activate: true
signals:
- {name: backlog, type: redis, source: jobs, listName: zero-jobs, target: 10}`+promptly)
	hpa := workload.HPA(ns, "embed", 8)
	minimum := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"minReplicas":0}}`))
	if err := suite.Stack.Client.Patch(t.Context(), hpa, minimum); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the HPA scales to zero", s.HasReplicas(0))
	stack.Eventually(t, time.Minute, "the HPA is marked", hasCondition(hpa, autoscalingv2.ScaledToZero, corev1.ConditionTrue))

	push(t, list, "zero-jobs", 37)
	stack.Eventually(t, time.Minute, "the HPA scales from zero", s.HasReplicas(4))

	workload.Scale(t, suite.Stack.Client, deployment, 0)
	stack.Eventually(t, time.Minute, "the HPA is disabled", hasCondition(hpa, autoscalingv2.ScalingActive, corev1.ConditionFalse))
	stack.Eventually(t, time.Minute, "explain names the cause and the command", s.Explained(func(e explain.Explanation) error {
		command := "kubectl -n zero scale deployment embed --replicas=1"
		if f := e.ScaledBy; e.Target != 4 || f == nil || f.Exact || !strings.Contains(f.Why, command) {
			return fmt.Errorf("target %d, HPA %+v; want target 4 and the command %q", e.Target, f, command)
		}
		return nil
	}))
	stack.Always(t, 3*hpaSync, "nothing scales a workload that a user scaled to zero", s.HasReplicas(0))

	workload.Scale(t, suite.Stack.Client, deployment, 1)
	stack.Eventually(t, time.Minute, "the HPA scales again", s.HasReplicas(4))
	course, err := s.Replicas.Steps()
	if err != nil {
		t.Fatal(err)
	}
	if got := course.Numbers(); !slices.Equal(got, []int32{1, 0, 4, 0, 1, 4}) {
		t.Errorf("the Deployment had %v, want 1, 0 (HPA), 4 (HPA), 0 (user), 1 (user), 4 (HPA)", course)
	}
	var d appsv1.Deployment
	if err := suite.Stack.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), &d); err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(d.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return m.Manager == "gpuscaler" }); i >= 0 {
		t.Errorf("gpuscaler wrote fields of the Deployment: %+v", d.ManagedFields[i])
	}
}

// push adds jobs to a Redis list.
func push(t *testing.T, list *goredis.Client, name string, jobs int) {
	t.Helper()
	all := make([]any, jobs)
	for i := range all {
		all[i] = fmt.Sprint("job-", i)
	}
	if err := list.RPush(t.Context(), name, all...).Err(); err != nil {
		t.Fatal(err)
	}
}

// hasCondition returns a check that an HPA has a condition with the given status.
func hasCondition(
	hpa *autoscalingv2.HorizontalPodAutoscaler, condition autoscalingv2.HorizontalPodAutoscalerConditionType, status corev1.ConditionStatus,
) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := suite.Stack.Client.Get(ctx, client.ObjectKeyFromObject(hpa), hpa); err != nil {
			return err
		}
		for _, c := range hpa.Status.Conditions {
			if c.Type == condition && c.Status == status {
				return nil
			}
		}
		return fmt.Errorf("condition %s is not %s: %+v", condition, status, hpa.Status.Conditions)
	}
}
