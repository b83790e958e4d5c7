package install

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/postrender"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/gpuscaler/gpuscaler/e2e/chart"
)

// helm runs Helm as the administrator in one namespace.
type helm struct {
	t         *testing.T
	namespace string
	config    *action.Configuration
	chart     *helmchart.Chart
	// edit changes the rendered manifests before they are applied; nil: no change.
	edit postrender.PostRenderer
}

func newHelm(t *testing.T, namespace string) *helm {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &cluster.Kubeconfig, &namespace
	config := new(action.Configuration)
	// the driver "memory" stores no Secrets in the cluster, because this test does not check the storage of releases
	if err := config.Init(flags, namespace, "memory", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	root, err := chart.Directory()
	if err != nil {
		t.Fatal(err)
	}
	c, err := loader.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	c.Values["image"].(map[string]any)["repository"] = "gpuscaler" // required: the chart has no default image
	return &helm{t: t, namespace: namespace, config: config, chart: c}
}

func (h *helm) install(name string, values map[string]any) *release.Release {
	h.t.Helper()
	r, err := h.installation(name).RunWithContext(h.t.Context(), h.chart, values)
	if err != nil {
		h.t.Fatalf("helm install %s: %v", name, err)
	}
	return r
}

// dryRun sends every object to the API server as a dry run.
func (h *helm) dryRun(name string, values map[string]any) *release.Release {
	h.t.Helper()
	install := h.installation(name)
	install.DryRun, install.DryRunOption = true, "server"
	r, err := install.RunWithContext(h.t.Context(), h.chart, values)
	if err != nil {
		h.t.Fatalf("helm install --dry-run=server %s: %v", name, err)
	}
	return r
}

func (h *helm) installation(name string) *action.Install {
	install := action.NewInstall(h.config)
	install.ReleaseName, install.Namespace, install.PostRenderer = name, h.namespace, h.edit
	return install
}

func (h *helm) upgrade(name string, values map[string]any) {
	h.t.Helper()
	upgrade := action.NewUpgrade(h.config)
	upgrade.Namespace, upgrade.PostRenderer = h.namespace, h.edit
	if _, err := upgrade.RunWithContext(h.t.Context(), name, h.chart, values); err != nil {
		h.t.Fatalf("helm upgrade %s: %v", name, err)
	}
}

func (h *helm) rollback(name string) {
	h.t.Helper()
	if err := action.NewRollback(h.config).Run(name); err != nil {
		h.t.Fatalf("helm rollback %s: %v", name, err)
	}
}

func (h *helm) uninstall(name string, hooks bool) {
	h.t.Helper()
	if h.edit != nil && hooks {
		h.editHooks(name)
	}
	uninstall := action.NewUninstall(h.config)
	uninstall.DisableHooks = !hooks
	if _, err := uninstall.Run(name); err != nil {
		h.t.Fatalf("helm uninstall %s: %v", name, err)
	}
}

// test runs helm test and returns the output of the pod that runs `gpuscaler lint`.
func (h *helm) test(name string) (said string, err error) {
	h.t.Helper()
	if h.edit != nil {
		h.editHooks(name)
	}
	run := action.NewReleaseTesting(h.config)
	run.Namespace, run.Timeout = h.namespace, 2*time.Minute
	_, err = run.Run(name)
	text, _ := os.ReadFile(filepath.Join(cluster.Dir, "logs", h.namespace+"-"+name+"-test-lint.log"))
	return string(text), err
}

// editHooks applies edit to the hooks of a release, because Helm does not apply the post-renderer to hooks. Otherwise kwok would mark the
// hooks' pods as succeeded without running them.
func (h *helm) editHooks(name string) {
	h.t.Helper()
	r, err := h.config.Releases.Last(name)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, hook := range r.Hooks {
		edited, err := h.edit.Run(bytes.NewBufferString(hook.Manifest))
		if err != nil {
			h.t.Fatalf("hook %s: %v", hook.Name, err)
		}
		hook.Manifest = edited.String()
	}
	if err := h.config.Releases.Update(r); err != nil {
		h.t.Fatal(err)
	}
}

// edits is a post-renderer that replaces the rendered text by the result of a function.
type edits func(text string) (string, error)

func (e edits) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	text, err := e(rendered.String())
	if err != nil {
		return nil, fmt.Errorf("post-render: %w", err)
	}
	return bytes.NewBufferString(text), nil
}
