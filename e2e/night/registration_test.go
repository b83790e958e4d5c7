package night

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// There can be only one APIService for external metrics in a cluster. In this test, another adapter replaces gpuscaler's registration.
// gpuscaler must report the conflict and must not register itself again, even after a restart.
func TestRegistrationOfAnotherServerIsReportedAndNotReplaced(t *testing.T) {
	stack.Eventually(t, time.Minute, "two replicas", suite.Ready(2))
	taken := `{"spec":{"service":{"namespace":"keda","name":"keda-metrics-apiserver","port":443},` +
		`"caBundle":null,"insecureSkipTLSVerify":true}}`
	registration := &apiregistrationv1.APIService{}
	registration.Name = controller.ExternalMetrics
	if err := suite.Stack.Client.Patch(t.Context(), registration, client.RawPatch(types.MergePatchType, []byte(taken)),
		client.FieldOwner("helm")); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the alarm", gauge("gpuscaler_apiservice_conflict", 1))
	stack.Eventually(t, time.Minute, "an Event", suite.Event(corev1.NamespaceDefault, "APIService", controller.ExternalMetrics,
		"APIServiceConflict"))
	if !strings.Contains(suite.Log(), "ALARM: external metrics are served by keda/keda-metrics-apiserver") {
		t.Error("no log line names the other server")
	}

	roll(t)
	stack.Eventually(t, time.Minute, "new replicas do not replace it and name its owner", func(ctx context.Context) error {
		if !strings.Contains(suite.Log(), "not replaced in mode auto") {
			return fmt.Errorf("no such log line")
		}
		return gauge("gpuscaler_apiservice_conflict", 0)(ctx)
	})
	stack.Always(t, 12*time.Second, "the registration is not replaced by later checks", owned("keda"))

	if err := suite.Stack.Client.Delete(t.Context(), registration); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "gpuscaler registers after the other registration is deleted", func(ctx context.Context) error {
		if err := owned(controller.Namespace)(ctx); err != nil {
			return err
		}
		return suite.Ready(2)(ctx)
	})
}

func gauge(name string, want float64) func(context.Context) error {
	return func(ctx context.Context) error {
		n, err := suite.Metric(ctx, name)
		if err == nil && n != want {
			err = fmt.Errorf("%s is %g", name, n)
		}
		return err
	}
}

func owned(namespace string) func(context.Context) error {
	return func(ctx context.Context) error {
		var a apiregistrationv1.APIService
		if err := suite.Stack.Client.Get(ctx, client.ObjectKey{Name: controller.ExternalMetrics}, &a); err != nil {
			return err
		}
		if a.Spec.Service == nil || a.Spec.Service.Namespace != namespace {
			return fmt.Errorf("it is %+v's", a.Spec.Service)
		}
		return nil
	}
}
