package snapshot

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/configmaps"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// ReadConfigMaps adds the ConfigMaps with policies in the given namespaces to the snapshot. If the ConfigMaps of a namespace cannot be
// listed, it adds the reason to Unread and returns false.
func (s *Snapshot) ReadConfigMaps(ctx context.Context, client dynamic.Interface, namespaces []string) (complete bool) {
	before := len(s.Unread)
	for _, namespace := range namespaces {
		unread := len(s.Unread)
		s.each(ctx, client.Resource(configMaps).Namespace(namespace), configMaps, configmaps.Selector, s.addConfigMap)
		for i := unread; i < len(s.Unread); i++ {
			s.Unread[i] = "policies of namespace " + namespace + ": " + s.Unread[i]
		}
	}
	return len(s.Unread) == before
}

// addConfigMap adds a ConfigMap of the API server or of a file if its label says that it contains policies.
func (s *Snapshot) addConfigMap(u *unstructured.Unstructured) {
	selector, err := labels.Parse(configmaps.Selector)
	c := &corev1.ConfigMap{}
	if err == nil && selector.Matches(labels.Set(u.GetLabels())) && runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, c) == nil {
		s.configMaps = append(s.configMaps, configmaps.Content(c))
	}
}

// ConfigMaps returns the ConfigMaps with policies.
func (s *Snapshot) ConfigMaps() []store.ConfigMap { return s.configMaps }
