package outage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

func TestInvalidPolicyKeepsItsLastValidVersionAndBlocksNoOther(t *testing.T) {
	ns, load, other := suite.Namespace(t, "typo"), &exporter.Total{}, &exporter.Total{}
	load.Set(27)
	other.Set(27)
	suite.Export(t, workload.Metrics(ns, "chat", load), workload.Metrics(ns, "other", other))
	s := suite.Workload(t, workload.Deployment(ns, "chat", 3), spec("prom"))
	o := suite.Workload(t, workload.Deployment(ns, "other", 3), spec("prom"))
	stack.Eventually(t, time.Minute, "three replicas", s.HasTarget(3))
	good := suite.Explanation(t, s.Policy()).Origin

	typo := controller.Policy(ns, "chat", strings.Replace(spec("prom"), "maxReplicas: 12", "maxReplica: 4", 1))
	put(t, s.File(), typo)
	put(t, o.File(), controller.Policy(ns, "other", strings.Replace(spec("prom"), "maxReplicas: 12", "maxReplicas: 4", 1)))
	stack.Eventually(t, time.Minute, "the metric reports the document as LastValid", document(s.File(), "LastValid"))
	load.Set(85)
	other.Set(85)
	stack.Eventually(t, time.Minute, "the last valid version is in force, up to 12", s.HasReplicas(9))
	stack.Eventually(t, time.Minute, "the new version of the other policy is in force, up to 4", o.HasReplicas(4))
	if now := suite.Explanation(t, s.Policy()).Origin; now != good {
		t.Errorf("its origin is %s, not %s", now, good)
	}
	if log := suite.Log(); !strings.Contains(log, s.File()+".yaml") || !strings.Contains(log, "maxReplica") {
		t.Error("no log line names the file and the field")
	}
	if text, err := suite.CLI(t.Context(), "validate", suite.Policies.Dir); err == nil || !strings.Contains(text, "maxReplicas") {
		t.Errorf("validate does not suggest the correct field: %v\n%s", err, text)
	}

	put(t, s.File(), controller.Policy(ns, "chat", strings.Replace(spec("prom"), "maxReplicas: 12", "maxReplicas: 5", 1)))
	stack.Eventually(t, time.Minute, "the metric reports the fixed document as InForce", document(s.File(), "InForce"))
	stack.Eventually(t, time.Minute, "the new bound applies", s.HasReplicas(5))
}

func TestInvalidNewPolicyIsRefusedAndBlocksNoOther(t *testing.T) {
	ns := suite.Namespace(t, "refused")
	suite.Policies.Write(t, "refused-wrong", controller.Policy(ns, "wrong", "maxReplicas: many\nsignals: []"))
	stack.Eventually(t, time.Minute, "the metric reports the document as Refused", document("refused-wrong", "Refused"))
	load := &exporter.Total{}
	load.Set(18)
	suite.Export(t, workload.Metrics(ns, "right", load))
	s := suite.Workload(t, workload.Deployment(ns, "right", 1), spec("prom"))
	stack.Eventually(t, time.Minute, "another policy works", s.HasReplicas(2))
}

// In mode hold gpuscaler must respond to every metric with status 503, and every HPA must keep its replicas.
func TestModeHoldKeepsAllReplicas(t *testing.T) {
	ns, load := suite.Namespace(t, "hold"), &exporter.Total{}
	load.Set(37)
	suite.Export(t, workload.Metrics(ns, "chat", load))
	s := suite.Workload(t, workload.Deployment(ns, "chat", 4), spec("prom"))
	stack.Eventually(t, time.Minute, "four replicas", s.HasTarget(4))
	if n, err := suite.ServedTarget(t.Context(), ns, "chat"); n != 4 || err != nil {
		t.Errorf("it serves %d, %v", n, err)
	}

	text := platform(suite.Stack)
	put(t, "platform", controller.Platform("mode: hold\n"+text))
	defer put(t, "platform", controller.Platform(text))
	held := time.Now()
	stack.Eventually(t, time.Minute, "no target is served", func(context.Context) error {
		if n, err := suite.ServedTarget(t.Context(), ns, "chat"); err == nil {
			return fmt.Errorf("it serves %d", n)
		}
		return nil
	})
	load.Set(75)
	time.Sleep(4 * time.Second) // long enough for two HPA syncs
	load.Set(5)
	time.Sleep(6 * time.Second) // longer than the stabilization window of a decrease
	replicas, err := s.Replicas.Steps()
	if err != nil {
		t.Fatal(err)
	}
	if moved := replicas.Since(held); len(moved) != 1 {
		t.Errorf("the replicas changed in mode hold: %v", moved)
	}
	stack.Eventually(t, time.Minute, "explain reports mode hold", s.Explained(func(e explain.Explanation) error {
		if e.Mode != "hold" || !strings.Contains(e.Served, "mode: hold") {
			return fmt.Errorf("mode %s, %s", e.Mode, e.Served)
		}
		return nil
	}))

	put(t, "platform", controller.Platform(text))
	stack.Eventually(t, time.Minute, "the target is followed again", s.HasReplicas(1))
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := suite.Policies.Put(file, text); err != nil {
		t.Fatal(err)
	}
}

// document returns a check that the metric gpuscaler_policy_document reports the given state for a file with one policy.
func document(file, state string) func(context.Context) error {
	return func(ctx context.Context) error {
		path := filepath.Join(suite.Policies.Dir, file+".yaml")
		n, err := suite.Metric(ctx, "gpuscaler_policy_document", "file", path, "state", state)
		if err == nil && n != 1 {
			err = errors.New("it is 0")
		}
		return err
	}
}
