package agreement

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
)

// end returns the final NodePool as text: its generation, limits, weight, disruption settings and annotations, and which field manager owns
// each of these fields.
func (p *poolStory) end() (string, error) {
	u, err := p.api.Get(p.pool)
	if apierrors.IsNotFound(err) {
		return "no NodePool\n", nil
	}
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "NodePool %d, generation %d\n", 1+slices.Index(p.uids, u.GetUID()), u.GetGeneration())
	for _, field := range []string{"limits", "weight", "disruption"} {
		if text := apiserver.FieldText(u, "spec", field); text != "" {
			fmt.Fprintf(&b, "  %s: %s\n", field, text)
		}
	}
	annotations := u.GetAnnotations()
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		fmt.Fprintf(&b, "  %s: %s\n", key, strings.ReplaceAll(annotations[key], p.pool, "POOL"))
	}
	var owners []string
	for _, entry := range u.GetManagedFields() {
		if fields := ownedFields(&entry); entry.Subresource == "" && len(fields) > 0 {
			owners = append(owners, fmt.Sprintf("  %s by %s: %s\n", entry.Operation, entry.Manager, strings.Join(fields, " ")))
		}
	}
	slices.Sort(owners)
	return b.String() + strings.Join(owners, ""), nil
}

// ownedFields returns the overridable fields and the annotations in an entry of managedFields.
func ownedFields(entry *metav1.ManagedFieldsEntry) (fields []string) {
	var set fieldpath.Set
	if err := set.FromJSON(bytes.NewReader(entry.FieldsV1.Raw)); err != nil {
		return []string{err.Error()}
	}
	for path := range set.Leaves().All() {
		name := strings.TrimPrefix(path.String(), ".")
		for _, prefix := range []string{"spec.limits", "spec.weight", "spec.disruption", "metadata.annotations"} {
			if strings.HasPrefix(name, prefix) {
				fields = append(fields, name)
			}
		}
	}
	slices.Sort(fields)
	return fields
}
