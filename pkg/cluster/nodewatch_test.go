package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

type fixedGroups []*capacity.Group

func (f fixedGroups) Groups() []*capacity.Group { return f }

// lines stores log output. A test can read it while the cluster writes to it.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func TestKarpenterIsInstalledLater(t *testing.T) {
	client := fake.NewClientset(fixture.Deployment("chat", 2, "2"))
	on := serve(client, map[string][]metav1.APIResource{"karpenter.sh/v1": {
		{Name: "nodepools", Kind: "NodePool"}, {Name: "nodeclaims", Kind: "NodeClaim"},
	}})
	on.Store(false)
	pool := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(fixture.SpotNodePool), &pool.Object); err != nil {
		t.Fatal(err)
	}
	kinds := map[schema.GroupVersionResource]string{
		karpenter.NodePools: "NodePoolList", karpenter.NodeClaims: "NodeClaimList",
	}
	log, g := &lines{}, spotAndOnDemand(t)
	schemas := func() (karpenter.Schema, error) {
		return karpenter.Schema{Known: true, Limits: true, Weight: true}, nil
	}
	objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, pool)
	c := beginWith(t, client, objects, Options{Groups: fixedGroups{g}, schemas: schemas, Log: slog.New(slog.NewTextHandler(log, nil))})
	if _, ok := c.View(fixture.Workload("chat")); !ok {
		t.Error("without Karpenter the target has no view")
	}
	o := capacity.Observation{}
	c.nodes.Observe(g, nil, &o)
	if o.Lost || o.Pools[0].Exists {
		t.Errorf("without Karpenter: %+v", o)
	}
	const absent = "the API server serves no NodePools"
	eventually(t, "the absence is logged", func() bool { return log.count(absent) == 1 })

	on.Store(true)
	eventually(t, "Karpenter is installed, and its NodePool is observed with the fields that its CRD has", func() bool {
		c.nodes.Observe(g, nil, &o)
		return !o.Lost && o.Pools[0].Exists && !o.Pools[0].Weight.Unsupported && o.Pools[0].Budgets.Unsupported
	})
	if n := log.count(absent); n != 1 {
		t.Errorf("the absence is logged %d times", n)
	}
}

// gpuscaler's role may read Nodes but not NodePools, and the API server serves NodePools. gpuscaler must not request NodePools: the API
// server would reject each request, and a group that finds its nodes by their labels would wait for the NodePools.
func TestNodesOfAGroupAreReadWithoutPermissionsOnNodePools(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-0", Labels: map[string]string{"accelerator": "l40s"}}}
	node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	client := fake.NewClientset(fixture.Deployment("chat", 2, "2"), node)
	serve(client, map[string][]metav1.APIResource{"karpenter.sh/v1": {
		{Name: "nodepools", Kind: "NodePool"}, {Name: "nodeclaims", Kind: "NodeClaim"},
	}}).Store(true)
	objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{karpenter.NodePools: "NodePoolList", karpenter.NodeClaims: "NodeClaimList"})
	g, err := capacity.NewGroup(capacity.Group{Name: "chat", Resource: "nvidia.com/gpu",
		NodeSelector: map[string]string{"accelerator": "l40s"}})
	if err != nil {
		t.Fatal(err)
	}
	c := beginWith(t, client, objects, Options{Groups: fixedGroups{g}, SkipNodePools: true})
	o := capacity.Observation{}
	eventually(t, "the Node is observed", func() bool {
		c.nodes.Observe(g, nil, &o)
		return !o.Lost && len(o.Pools[0].Nodes) == 1 && o.Pools[0].Nodes[0].GPUs == 8
	})
	for _, a := range objects.Actions() {
		if a.GetResource().Group == "karpenter.sh" {
			t.Errorf("requested: %s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}
