package ownership

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOwnersAreParsedFromTheirText(t *testing.T) {
	for _, all := range [][]Owner{
		nil, {{"kubectl", "Apply"}}, {{"kubectl-client-side-apply", "Update"}, {"argocd-controller", "Apply"}},
		{{"a/b,c", "Apply"}, {"d,e", "Update"}},
	} {
		text := ""
		for i, o := range all {
			if i > 0 {
				text += ","
			}
			text += o.String()
		}
		if got := ParseOwners(text); !slices.Equal(got, all) {
			t.Errorf("%q is parsed as %v", text, got)
		}
	}
	if got := ParseOwners("no operation, no name"); len(got) != 0 {
		t.Errorf("text without an operation is parsed as %v", got)
	}
}

func managed(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, APIVersion: "karpenter.sh/v1", FieldsType: "FieldsV1",
		FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
}

func TestTransferReturnsAFieldToItsOwnersAndRemovesOurEntries(t *testing.T) {
	gpu := []string{"spec", "limits", "nvidia.com/gpu"}
	before := []metav1.ManagedFieldsEntry{
		managed("argocd", "Apply", `{"f:spec":{"f:limits":{"f:cpu":{}},"f:weight":{}}}`),
		managed("karpenter", "Update", `{"f:metadata":{"f:annotations":{"f:karpenter.sh/nodepool-hash":{}}}}`),
		managed(Manager, "Apply", `{"f:metadata":{"f:annotations":{"f:gpuscaler.io/record":{}}},"f:spec":{"f:limits":{"f:nvidia.com/gpu":{}}}}`),
		managed(Manager, "Update", `{"f:spec":{"f:limits":{".":{},"f:nvidia.com/gpu":{}}}}`),
	}
	owned := Read(before)
	if got := owned.Owners(gpu...); !slices.Equal(got, []Owner{{Manager, "Apply"}, {Manager, "Update"}}) {
		t.Fatalf("owners %v", got)
	}
	if !owned.Transfer(gpu, []Owner{{"argocd", "Apply"}, {"kubectl", "Update"}}, "karpenter.sh/v1") {
		t.Fatal("nothing changed")
	}
	after, err := owned.Entries()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`argocd {"f:spec":{"f:limits":{"f:cpu":{},"f:nvidia.com/gpu":{}},"f:weight":{}}}`,
		`karpenter {"f:metadata":{"f:annotations":{"f:karpenter.sh/nodepool-hash":{}}}}`,
		`gpuscaler {"f:metadata":{"f:annotations":{"f:gpuscaler.io/record":{}}}}`,
		`kubectl {"f:spec":{"f:limits":{"f:nvidia.com/gpu":{}}}}`,
	}
	var got []string
	for _, e := range after {
		got = append(got, e.Manager+" "+string(e.FieldsV1.Raw))
	}
	if !slices.Equal(got, want) {
		t.Errorf("entries\n%q, want\n%q", got, want)
	}
	again := Read(after)
	if again.Transfer(gpu, []Owner{{"argocd", "Apply"}, {"kubectl", "Update"}}, "karpenter.sh/v1") {
		t.Error("the second transfer reports a change: a restore would never end")
	}
}

func TestEntriesOfSubresourcesAndUnreadableEntriesAreUnchanged(t *testing.T) {
	status := managed("karpenter", "Update", `{"f:status":{}}`)
	status.Subresource = "status"
	broken := managed("editor", "Update", `{"f:spec":`)
	owned := Read([]metav1.ManagedFieldsEntry{status, broken})
	owned.Transfer([]string{"spec", "weight"}, nil, "v1")
	after, err := owned.Entries()
	if err != nil || len(after) != 2 || string(after[1].FieldsV1.Raw) != `{"f:spec":` {
		t.Errorf("%v, %v", after, err)
	}
}
