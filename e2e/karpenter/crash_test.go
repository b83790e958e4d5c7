package karpenter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/karpenter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// crashGroups has one group for each state in which gpuscaler overrides a NodePool. The key is the name of the group, and the value is its
// settings in the PlatformConfig.
var crashGroups = map[string]string{
	"zero":     "zeroLimit: true, nodePools: {spot: crash-zero}",
	"expired":  "nodePools: {spot: crash-expired}",
	"freeze":   "nodePools: {spot: crash-freeze}",
	"cap":      "spotWaitTimeout: 4m, nodePools: {spot: crash-cap-spot, on-demand: crash-cap-od}",
	"fallback": "nodePools: {spot: crash-fallback-spot, on-demand: crash-fallback-od}",
	"probe":    "nodePools: {spot: crash-probe-spot, on-demand: crash-probe-od}",
	"move":     "nodePools: {spot: crash-move-spot, on-demand: crash-move-od}",
}

const (
	crashNever = `{name: never, timezone: UTC, from: "2090-01-01", until: "2099-12-31", minReplicas: 1}`
	// minReplicas must be 3, because the fallback begins after three rejected launches
	crashAlways = `{name: always, timezone: UTC, from: "2020-01-01", until: "2099-12-31", minReplicas: 3}`
)

func crashPlatform(groups ...string) string {
	text := "capacityGroups:\n"
	for _, name := range groups {
		text += fmt.Sprintf("- {name: %s, resource: nvidia.com/gpu, %s}\n", name, crashGroups[name])
	}
	return controller.Platform(text)
}

func crashPolicy(group, schedule string) string {
	return controller.Policy("crash", group, "minReplicas: 0\nmaxReplicas: 9\ncapacityGroup: "+group+"\nschedules: ["+schedule+"]\n")
}

// crash is the environment of the crash test: the NodePools, their content before the test, and the directory from which gpuscaler reads
// policies.
type crash struct {
	pools    []pool
	contents map[string]string
	dir      string
}

func (c *crash) put(t *testing.T, name, text string) {
	t.Helper()
	if err := (controller.Policies{Dir: c.dir}).Put(name, text); err != nil {
		t.Fatal(err)
	}
}

// startInPast starts gpuscaler with a fast clock. The clock begins in the past and reaches real time at the time equalAt. When the
// process is killed, its overrides and timestamps equal the overrides and timestamps of a controller that crashed a few minutes ago.
func (c *crash) startInPast(t *testing.T, name string, equalAt time.Time) *fastProcess {
	t.Helper()
	dir := filepath.Join(suite.Dir, name+"past")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	load, status := fastFiles(dir)
	g := &fastProcess{dir: dir, config: fastConfig{Kubeconfig: suite.account, Policies: c.dir, Load: load, Status: status, Prefix: name,
		Epoch: equalAt, Speed: speed}}
	g.load(t, nil)
	g.run(t)
	t.Cleanup(func() {
		if g.end(syscall.SIGKILL); t.Failed() {
			t.Log(g.tail(40))
		}
	})
	return g
}

// restored returns a check that the named NodePools have exactly the content that they had before the test, including the owners of their
// fields. If no name is given, it checks all NodePools.
func (c *crash) restored(t *testing.T, names ...string) func(context.Context) error {
	return func(context.Context) error {
		var all error
		for _, p := range c.pools {
			if content := p.content(t); content != c.contents[p.name] && (len(names) == 0 || slices.Contains(names, p.name)) {
				all = errors.Join(all, fmt.Errorf("%s differs:\n%s\nbefore:\n%s", p.name, content, c.contents[p.name]))
			}
		}
		return all
	}
}

func (c *crash) pool(name string) pool {
	return c.pools[slices.IndexFunc(c.pools, func(p pool) bool { return p.name == name })]
}

func (c *crash) weight(ctx context.Context, name string) string {
	w, _, _ := unstructured.NestedInt64(c.pool(name).get(ctx).Object, "spec", "weight")
	return fmt.Sprint(w)
}

func (c *crash) budgets(ctx context.Context, name string) int {
	list, _, _ := unstructured.NestedSlice(c.pool(name).get(ctx).Object, "spec", "disruption", "budgets")
	return len(list)
}

// present returns the overrides that must remain after a crash, in one line of text.
func (c *crash) present(ctx context.Context) string {
	return fmt.Sprintf("zero limit %s, limit cap %s, freeze budgets %d, fallback weight %s, probe limit %s",
		c.pool("crash-zero").limitNow(ctx), c.pool("crash-cap-od").limitNow(ctx), c.budgets(ctx, "crash-freeze"),
		c.weight(ctx, "crash-fallback-od"), c.pool("crash-probe-spot").limitNow(ctx))
}

// ownType returns an edit of a NodePool for a group. The edit sets a node label of the group. If the map market has an instance type for
// the group, the edit also sets this instance type.
func ownType(group string) func(spec map[string]any) {
	return func(spec map[string]any) {
		template := spec["template"].(map[string]any)
		template["metadata"].(map[string]any)["labels"].(map[string]any)["group"] = group
		if own, has := market["crash"+group]; has {
			template["spec"].(map[string]any)["requirements"].([]any)[1].(map[string]any)["values"] = []any{own.Name}
		}
	}
}

// The test kills the real binary in every state with an override. The next leader must continue, and in the end all NodePools must be
// restored.
func TestLongKilledInEveryStateAllNodePoolsAreRestored(t *testing.T) {
	if os.Getenv("GPUSCALER_E2E_LONG") == "" {
		t.Skip("three minutes: GPUSCALER_E2E_LONG=1, or make test-long")
	}
	c := crashScene(t)
	c.put(t, "platform", controller.Platform("mode: auto\n"))
	// Delete the Service that another test has created.
	_ = suite.Client.Delete(t.Context(), &corev1.Service{ObjectMeta: (&controller.Controller{}).Deployment().ObjectMeta})
	if err := suite.Nodes(t.Context(), "crash-cpu", 2, 0); err != nil {
		t.Fatal(err)
	}
	real, err := controller.Up(t.Context(), suite.Stack, controller.Options{Values: release.Values})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = suite.Client.Delete(context.Background(), real.Deployment()) })
	replicas(t, real, 0)
	crashed(t, c)
	leftover(t, c)
	c.put(t, "platform", crashPlatform("zero", "expired", "freeze", "cap", "fallback", "probe", "move"))
	opens := time.Now().UTC().Truncate(time.Minute).Add(3 * time.Minute).Format("2006-01-02T15:04")
	c.put(t, "freeze", crashPolicy("freeze", fmt.Sprintf(`{name: peak, timezone: UTC, from: %q, until: "2099-12-31", minReplicas: 1}`, opens)))
	replicas(t, real, 2)

	stack.Eventually(t, 40*time.Second, "an expired consolidation freeze is removed", c.restored(t, "crash-expired"))
	stack.Eventually(t, 40*time.Second, "an unfinished move leaves no annotation", unmarked("crash"))
	// The demand of the group with the limit cap is only from schedules. The new leader therefore knows this demand at its first tick, and
	// keeps the limit cap.
	present := "zero limit 0, limit cap 0, freeze budgets 3, fallback weight 81, probe limit 1"
	unchanged := func(context.Context) error {
		if now := c.present(t.Context()); now != present {
			return fmt.Errorf("%s, want %s", now, present)
		}
		return nil
	}
	// The schedule opens at a full minute, and the freeze begins two minutes earlier. The wait includes up to a minute until the freeze
	// begins.
	stack.Eventually(t, 100*time.Second, "the zero limit, the limit cap, the fallback and the probe are set, and consolidation is frozen",
		unchanged)

	for _, how := range []string{"the leader alone: a standby takes over", "both at once", "both at once, again"} {
		before := c.generations(t)
		kill(t, real, how[:4] == "both")
		stack.Always(t, 12*time.Second, how+": everything is unchanged", unchanged)
		stack.Eventually(t, time.Minute, how+": one leads again", real.Ready(2))
		if after := c.generations(t); !maps.Equal(before, after) {
			t.Errorf("%s: written twice: generations %v, before %v", how, after, before)
		}
	}
	midRelease(t, c, real)
	stack.Eventually(t, 20*time.Second, "no pod has an annotation of gpuscaler", unmarked("crash"))
	undrifted(t, c.pools...)
}

// generations returns metadata.generation of each NodePool with an override. A generation must change only if an override changes,
// because Karpenter validates the NodePool again after each change.
func (c *crash) generations(t *testing.T) map[string]int64 {
	all := map[string]int64{}
	for _, name := range []string{"crash-zero", "crash-freeze", "crash-fallback-spot", "crash-fallback-od", "crash-probe-spot",
		"crash-probe-od"} {
		all[name] = c.pool(name).get(t.Context()).GetGeneration()
	}
	return all
}

func crashScene(t *testing.T) *crash {
	t.Helper()
	c := &crash{contents: map[string]string{}, dir: filepath.Join(suite.Dir, "policies")}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	styles := []style{clientSide, updated, serverSide}
	add := func(group, name, kind string, weight int64, limit any) {
		p := pool{name: name, kind: kind, weight: weight, limit: limit, nudge: allFields, by: styles[len(c.pools)%3], edit: ownType(group)}
		p.create(t)
		c.pools = append(c.pools, p)
	}
	add("zero", "crash-zero", "spot", 80, int64(16))
	add("expired", "crash-expired", "spot", 80, nil)
	add("freeze", "crash-freeze", "spot", 80, nil)
	for _, group := range []string{"cap", "fallback", "probe", "move"} {
		add(group, "crash-"+group+"-spot", "spot", 80, int64(16))
		add(group, "crash-"+group+"-od", "on-demand", 20, nil)
	}
	for i, p := range c.pools {
		if p.by == updated {
			c.pools[i].weight++ // the weight that the method create sets
		}
		c.contents[p.name] = p.content(t)
	}
	if err := suite.Namespace(t.Context(), "crash"); err != nil {
		t.Fatal(err)
	}
	for group := range crashGroups {
		schedule, replicas := crashNever, int32(0)
		if group == "fallback" || group == "probe" || group == "move" {
			schedule = crashAlways
		}
		c.put(t, group, crashPolicy(group, schedule))
		d := workload.Deployment("crash", group, replicas)
		d.Spec.Template.Spec.NodeSelector = map[string]string{"suite": "crash", "group": group}
		workload.Create(t, suite.Client, d)
	}
	t.Cleanup(func() { // delete the nodes before the NodePools are deleted
		var list appsv1.DeploymentList
		if err := suite.Client.List(context.Background(), &list, client.InNamespace("crash")); err != nil {
			t.Error(err)
		}
		for i := range list.Items {
			_ = suite.Client.Delete(context.Background(), &list.Items[i], client.PropagationPolicy("Foreground"))
		}
	})
	return c
}

// leftover runs and kills a fast process (see fastEnv) that froze consolidation half an hour ago. The budget of this freeze has expired.
// gpuscaler must nevertheless remove the budget, because its schedule would apply again in a year.
func leftover(t *testing.T, c *crash) {
	t.Helper()
	equalAt := time.Now().Add(time.Minute)
	then := fastConfig{Epoch: equalAt, Speed: speed}.now()
	from, until := then.UTC().Add(3*time.Minute).Format("2006-01-02T15:04"), then.UTC().Add(12*time.Minute).Format("2006-01-02T15:04")
	c.put(t, "expired", crashPolicy("expired", fmt.Sprintf(`{name: minute, timezone: UTC, from: %q, until: %q, minReplicas: 1}`, from, until)))
	c.put(t, "platform", crashPlatform("expired"))
	g := c.startInPast(t, "crash-expired", equalAt)
	stack.Eventually(t, 20*time.Second, "consolidation was frozen", func(ctx context.Context) error {
		if n := c.budgets(ctx, "crash-expired"); n < 2 {
			return fmt.Errorf("%d budgets", n)
		}
		return nil
	})
	g.end(syscall.SIGKILL)
	if until > time.Now().UTC().Format("2006-01-02T15:04") {
		t.Error("the freeze has not expired")
	}
}

// crashed runs and kills a fast process (see fastEnv). At the time of the kill, its groups have a zero limit, a limit cap for the spot wait
// timeout, a fallback and a probe. In addition, a replica is moving between nodes.
func crashed(t *testing.T, c *crash) {
	t.Helper()
	scale := func(group string, n int32) {
		t.Helper()
		workload.Scale(t, suite.Client, workload.Deployment("crash", group, n), n)
	}
	lacks := func(groups ...string) {
		var of []karpenter.Shortage
		for _, group := range groups {
			of = append(of, karpenter.Shortage{CapacityType: "spot", InstanceType: market["crash"+group].Name})
		}
		scarce(t, of...)
	}
	lacks("probe", "move")
	c.put(t, "platform", crashPlatform("zero", "cap", "fallback", "probe", "move"))
	// The fast clock reaches real time at about the time of the kill, because the fallback of 15 minutes must not end before the kill.
	g := c.startInPast(t, "crash-", time.Now().Add(45*time.Second))
	scale("probe", 3)
	scale("move", 3)
	is := func(within time.Duration, group, phase string) {
		t.Helper()
		stack.Eventually(t, within, group+" is in phase "+phase, func(context.Context) error {
			s, err := g.status()
			if err != nil || s.Groups[group].Phase != phase {
				return fmt.Errorf("%s: %+v (%v)", group, s.Groups[group], err)
			}
			return nil
		})
	}
	is(time.Minute, "probe", "fallback")
	is(time.Minute, "move", "fallback")
	stack.Eventually(t, time.Minute, "on-demand replicas are ready", workload.HasReplicas(suite.Client, "crash", "move", 3))
	is(time.Minute, "probe", "probing") // the phase continues until a pod uses the node of the probe, which does not occur here
	lacks("fallback")
	scale("fallback", 3)
	victim := ""
	stack.Eventually(t, 2*time.Minute, "one group falls back, and in another a replica is in the middle of its move",
		func(ctx context.Context) error {
			s, err := g.status()
			if err != nil {
				return err
			}
			if s.Numbers["crash/move"] > 3 {
				scale("move", s.Numbers["crash/move"])
			}
			if s.Groups["fallback"].Phase != "fallback" || s.Groups["probe"].Phase != "probing" {
				return fmt.Errorf("fallback %+v, probe %+v", s.Groups["fallback"], s.Groups["probe"])
			}
			var pods corev1.PodList
			if err := suite.Client.List(ctx, &pods, client.InNamespace("crash"), client.MatchingLabels{"app": "move"}); err != nil {
				return err
			}
			for _, p := range pods.Items {
				if p.Annotations["controller.kubernetes.io/pod-deletion-cost"] != "" {
					victim = p.Name
					return nil
				}
			}
			return fmt.Errorf("no mark: %+v", s.Groups["move"])
		})
	g.end(syscall.SIGKILL)
	t.Logf("killed %s behind real time, in the middle of the move of %s", time.Since(g.config.now()).Round(time.Second), victim)
	// The Events about rejected launches must be deleted, because the next leader uses real time. By its clock the launches failed a minute
	// ago. By the clock of the killed process they failed half an hour ago, before the probe began.
	refused := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}}
	if err := suite.Client.DeleteAllOf(t.Context(), refused, client.InNamespace("default"),
		client.MatchingFields{"reason": "InsufficientCapacityError"}); err != nil {
		t.Fatal(err)
	}
	const want = "zero limit 0, limit cap 0, freeze budgets 1, fallback weight 81, probe limit 1"
	if now := c.present(t.Context()); now != want {
		t.Fatalf("overrides %s, want %s", now, want)
	}
}

// replicas sets the number of replicas of gpuscaler's Deployment and waits until they are ready. The number must be 0 while a fast process
// runs.
func replicas(t *testing.T, c *controller.Controller, n int32) {
	t.Helper()
	workload.Scale(t, suite.Client, c.Deployment(), n)
	stack.Eventually(t, time.Minute, fmt.Sprintf("%d replicas of the real gpuscaler", n), func(ctx context.Context) error {
		if n > 0 {
			return c.Ready(n)(ctx)
		}
		pods, err := c.Pods(ctx)
		if err != nil || len(pods) > 0 {
			return fmt.Errorf("%d pods (%v)", len(pods), err)
		}
		return nil
	})
}

// kill kills the leader, or every replica, with SIGKILL.
func kill(t *testing.T, c *controller.Controller, all bool) {
	t.Helper()
	leader, err := c.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pods, err := c.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		if process := c.Kubelet.Process(p.Namespace, p.Name); process != nil && (all || p.Name == leader.Name) {
			process.Kill()
		}
	}
}

// refusal is an admission policy that stops each restore before it is complete. On crash-zero it allows only the first write, after which
// the values are restored but gpuscaler still owns the fields. On every other NodePool it rejects the last write, so that the record
// annotation remains.
const refusal = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"crash"},"spec":{
"failurePolicy":"Fail",
"matchConstraints":{"resourceRules":[{"apiGroups":["karpenter.sh"],"apiVersions":["*"],"resources":["nodepools"],
"operations":["UPDATE"]}]},
"matchConditions":[{"name":"gpuscaler","expression":"request.userInfo.username.startsWith('system:serviceaccount:gpuscaler-system:')"}],
"validations":[{"expression":"object.metadata.name == 'crash-zero' ? object.spec != oldObject.spec : 'gpuscaler.io/record' in ` +
	`object.metadata.annotations || !('gpuscaler.io/record' in oldObject.metadata.annotations)","message":"not now"}]}}`

const refusalBinding = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding",` +
	`"metadata":{"name":"crash"},
"spec":{"policyName":"crash","validationActions":["Deny"]}}`

// midRelease kills the leader for each NodePool between two writes of a restore.
func midRelease(t *testing.T, c *crash, real *controller.Controller) {
	t.Helper()
	var refusals []*unstructured.Unstructured
	for _, text := range []string{refusal, refusalBinding} {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		refusals = append(refusals, u)
		t.Cleanup(func() { _ = suite.Client.Delete(context.Background(), u.DeepCopy()) })
		if err := suite.Client.Create(t.Context(), u.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(5 * time.Second) // wait until the API server applies the admission policy; otherwise the restore would succeed
	c.put(t, "platform", controller.Platform("mode: auto\n"))
	half := func(ctx context.Context) error {
		for _, p := range c.pools {
			spec, _ := json.Marshal(p.get(ctx).Object["spec"])
			if !strings.HasPrefix(c.contents[p.name], "spec "+string(spec)+"\n") {
				return fmt.Errorf("%s: spec %s", p.name, spec)
			}
		}
		for _, name := range []string{"crash-zero", "crash-fallback-od", "crash-probe-spot", "crash-freeze"} {
			if c.pool(name).get(ctx).GetAnnotations()["gpuscaler.io/record"] == "" {
				return fmt.Errorf("%s has no record", name)
			}
		}
		return nil
	}
	stack.Eventually(t, time.Minute, "a restore is half done", half)
	if content := c.pool("crash-zero").content(t); !strings.Contains(content, "gpuscaler/Update") {
		t.Errorf("crash-zero has more than its first write:\n%s", content)
	}
	kill(t, real, true)
	for _, u := range refusals {
		if err := suite.Client.Delete(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
	stack.Eventually(t, time.Minute, "the next leader restores every NodePool", c.restored(t))
}
