package keda

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// gpuscaler starts while the ScaledObject CRD does not exist, and KEDA is installed afterwards. gpuscaler must then observe the
// ScaledObject without a restart. This test is not parallel, because it uninstalls the KEDA that all tests share.
func TestKEDAIsInstalledWhileGpuscalerRuns(t *testing.T) {
	s := place(t, "late", 1)
	s.policy(t, fmt.Sprintf(jobsPolicy, s.queue()))
	manifest := s.manifest(t, "--mirror=false")
	uninstall(t)
	installed := false
	install := func(ctx context.Context) error {
		return errors.Join(keda.installCRDs(ctx), keda.Run(ctx))
	}
	t.Cleanup(func() { // restores KEDA for the other tests, even if this test fails
		if !installed {
			if err := install(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})

	leader, err := suite.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old := suite.Kubelet.Process(leader.Namespace, leader.Name)
	old.Kill()
	stack.Eventually(t, time.Minute, "a new gpuscaler leads, without ScaledObjects", func(ctx context.Context) error {
		leader, err := suite.Leader(ctx)
		if err != nil {
			return err
		}
		if p := suite.Kubelet.Process(leader.Namespace, leader.Name); p == nil || p == old {
			return errors.New("only the old process exists")
		}
		return nil
	})
	s.backlog(t, 25)
	stack.Eventually(t, time.Minute, "it computes a target without an HPA", s.target(3))

	if err := install(t.Context()); err != nil {
		t.Fatal(err)
	}
	installed = true
	began := time.Now()
	s.follow(t, manifest)
	t.Logf("observed %s after the ScaledObject was created", time.Since(began).Round(100*time.Millisecond))
	stack.Eventually(t, time.Minute, "three replicas by KEDA", s.has(3))
}

// uninstall stops KEDA, waits until the objects of earlier tests are deleted, and deletes the ScaledObject CRD.
func uninstall(t *testing.T) {
	t.Helper()
	stack.Eventually(t, time.Minute, "no ScaledObject is left", func(ctx context.Context) error {
		list := objects("keda.sh/v1alpha1", "ScaledObjectList")
		if err := suite.Stack.Client.List(ctx, list); err != nil || len(list.Items) > 0 {
			return fmt.Errorf("%d are there, %w", len(list.Items), err)
		}
		return nil
	})
	keda.Kill()
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName("scaledobjects.keda.sh")
	if err := suite.Stack.Client.Delete(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the kind is deleted", func(ctx context.Context) error {
		if err := suite.Stack.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the CRD still exists: %v", err)
		}
		if err := suite.Stack.Client.List(ctx, objects("keda.sh/v1alpha1",
			"ScaledObjectList")); !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return fmt.Errorf("the kind is still served: %v", err)
		}
		return nil
	})
}
