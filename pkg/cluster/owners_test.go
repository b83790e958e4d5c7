package cluster

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOwnersOfAFieldAreReadAsTheyAreWritten(t *testing.T) {
	for _, all := range [][]owner{
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
		if got := parseOwners(text); !slices.Equal(got, all) {
			t.Errorf("%q is read as %v", text, got)
		}
	}
	if got := parseOwners("no operation, nobody"); len(got) != 0 {
		t.Errorf("what nobody wrote is read as %v", got)
	}
}

func entry(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, APIVersion: "karpenter.sh/v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
}

func TestAFieldGoesBackToWhoHadItAndNoEntryOfOursStays(t *testing.T) {
	gpu := []string{"spec", "limits", "nvidia.com/gpu"}
	before := []metav1.ManagedFieldsEntry{
		entry("argocd", "Apply", `{"f:spec":{"f:limits":{"f:cpu":{}},"f:weight":{}}}`),
		entry("karpenter", "Update", `{"f:metadata":{"f:annotations":{"f:karpenter.sh/nodepool-hash":{}}}}`),
		entry(fieldManager, "Apply", `{"f:metadata":{"f:annotations":{"f:gpuscaler.io/record":{}}},"f:spec":{"f:limits":{"f:nvidia.com/gpu":{}}}}`),
		entry(fieldManager, "Update", `{"f:spec":{"f:limits":{".":{},"f:nvidia.com/gpu":{}}}}`),
	}
	owned := ownersOf(before)
	if got := owned.of(gpu); !slices.Equal(got, []owner{{fieldManager, "Apply"}, {fieldManager, "Update"}}) {
		t.Fatalf("owners %v", got)
	}
	if !owned.give(gpu, []owner{{"argocd", "Apply"}, {"kubectl", "Update"}}, "karpenter.sh/v1") {
		t.Fatal("nothing changed")
	}
	after, err := owned.entries()
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
	again := ownersOf(after)
	if again.give(gpu, []owner{{"argocd", "Apply"}, {"kubectl", "Update"}}, "karpenter.sh/v1") {
		t.Error("a second time it changes again: each restore would be written for ever")
	}
}

func TestEntriesOfASubresourceAndOnesThatCannotBeReadStayAsTheyAre(t *testing.T) {
	status := entry("karpenter", "Update", `{"f:status":{}}`)
	status.Subresource = "status"
	broken := entry("someone", "Update", `{"f:spec":`)
	owned := ownersOf([]metav1.ManagedFieldsEntry{status, broken})
	owned.give([]string{"spec", "weight"}, nil, "v1")
	after, err := owned.entries()
	if err != nil || len(after) != 2 || string(after[1].FieldsV1.Raw) != `{"f:spec":` {
		t.Errorf("%v, %v", after, err)
	}
}
