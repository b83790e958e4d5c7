package snapshot

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Only ConfigMaps of the given namespaces that have the label of policies must be read. A namespace whose ConfigMaps the user may not list
// must be in Unread, so that lint does not report its policies as missing.
func TestConfigMapsOfTeamsAreRead(t *testing.T) {
	of := func(namespace, name, label string) runtime.Object {
		return fromYAML(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: "+namespace+", name: "+name+
			", labels: {gpuscaler.io/policy: \""+label+"\"}}\ndata: {chat.yaml: text}\n")
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{configMaps: "ConfigMapList"},
		of("chat", "policies", "true"), of("chat", "other", "false"), of("elsewhere", "policies", "true"))
	client.PrependReactor("list", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetNamespace() == "secret" {
			return true, nil, apierrors.NewForbidden(configMaps.GroupResource(), "", nil)
		}
		return false, nil, nil
	})
	s := &Snapshot{}
	if complete := s.ReadConfigMaps(t.Context(), client, []string{"chat"}); !complete || len(s.Unread) != 0 {
		t.Errorf("complete %t, unread %q", complete, s.Unread)
	}
	if complete := s.ReadConfigMaps(t.Context(), client, []string{"secret", "empty"}); complete || len(s.Unread) != 1 ||
		!strings.HasPrefix(s.Unread[0], "policies of namespace secret: configmaps") {
		t.Errorf("complete %t, unread %q", complete, s.Unread)
	}
	if all := s.ConfigMaps(); len(all) != 1 || all[0].Name != "policies" || all[0].Data["chat.yaml"] != "text" {
		t.Errorf("%+v", all)
	}
}
