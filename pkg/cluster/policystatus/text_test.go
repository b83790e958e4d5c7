package policystatus

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/printable"
)

func configMap(state store.State, inForce []string, problems ...policy.Problem) store.CarrierStatus {
	return store.CarrierStatus{Kind: "ConfigMap", Namespace: "team", Name: "policies", State: state, InForce: inForce, Problems: problems}
}

func TestText(t *testing.T) {
	inKey := policy.Problem{File: "ConfigMap team/policies/chat.yaml", Line: 8, Column: 3, Document: "ScalingPolicy team/chat",
		Field: "spec.maxReplicas", Message: "is missing", Allowed: "1 to 10000"}
	warning := policy.Problem{File: "HorizontalPodAutoscaler team/chat", Field: "spec.formula", Message: "has no effect", Warning: true}
	lastValid := wrong("chat")
	lastValid.State, lastValid.Workload = store.LastValid, valid("chat", 1).Workload
	one := valid("chat", 1)
	one.Problems = []policy.Problem{warning}
	for want, st := range map[string]store.CarrierStatus{
		acceptedText: valid("chat", 3),
		"accepted: 1 signal, 2 to 12 replicas; warning: spec.formula: has no effect":     one,
		strings.Replace(refusedText, "no version is", "the last valid version stays", 1): lastValid,
		"accepted: chat@3f1c, embed@9a01": configMap(
			store.InForce, []string{"chat@3f1c", "embed@9a01"}),
		"refused: chat.yaml line 8: spec.maxReplicas: is missing; allowed: 1 to 10000; further errors: 2; in force: embed@9a01": configMap(
			store.Refused, []string{"embed@9a01"}, inKey, inKey, inKey),
		"refused: data: is too large; no policy is in force as written": configMap(store.Refused, nil,
			policy.Problem{File: "ConfigMap team/policies", Field: "data", Message: "is too large"}),
		// the property test below found these messages, which are empty or blank
		"refused: the document is invalid; no policy is in force as written": configMap(store.Refused, nil, policy.Problem{}),
		"refused: the document is invalid; in force: chat@3f1c": configMap(store.Refused, []string{"chat@3f1c"},
			policy.Problem{Message: " "}),
		"accepted: no policies; warning: contains no documents": configMap(store.InForce, nil,
			policy.Problem{File: "ConfigMap team/policies", Message: "contains no documents", Warning: true}),
		"": {Kind: "ConfigMap"},
	} {
		if st.Kind == "" {
			st.Kind, st.Namespace = "HorizontalPodAutoscaler", "team"
		}
		if got, known := Text(&st); got != want || known != (want != "") {
			t.Errorf("%q, known %t; want %q", got, known, want)
		}
	}
}

// Problems quote texts that a tenant writes. The annotation must nevertheless be one printable line of at most maxText bytes, and must end
// with the version of the policy that gpuscaler uses.
func TestTextIsOneShortPrintableLine(t *testing.T) {
	hostile := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"\x1b[2J\x1b[1;1Haccepted", "a\nrefused: b\r\n", "evil\u202egnp", "\xff\xfe", strings.Repeat("é", maxText),
		strings.Repeat("x", 1<<16), "\u2028"}))
	rapid.Check(t, func(t *rapid.T) {
		st := store.CarrierStatus{Kind: "ConfigMap", Namespace: "team", Name: "policies",
			State: rapid.SampledFrom([]store.State{store.InForce, store.Refused, ""}).Draw(t, "state")}
		for i := range rapid.IntRange(0, 3).Draw(t, "problems") {
			st.Problems = append(st.Problems, policy.Problem{File: hostile.Draw(t, "file"), Line: i, Field: hostile.Draw(t, "field"),
				Message: hostile.Draw(t, "message"), Found: hostile.Draw(t, "found"), Warning: rapid.Bool().Draw(t, "warning")})
		}
		for i := range rapid.IntRange(0, 50).Draw(t, "in force") {
			st.InForce = append(st.InForce, fmt.Sprintf("chat-%d@3f1c", i))
		}
		text, known := Text(&st)
		if len(text) > maxText || !utf8.ValidString(text) || !printable.Is(text) || strings.ContainsAny(text, "\n\t\r") {
			t.Fatalf("%d bytes: %q", len(text), text)
		}
		if known != (text != "") || known && !strings.HasPrefix(text, "accepted: ") && !strings.HasPrefix(text, "refused: ") {
			t.Fatalf("known %t: %q", known, text)
		}
		if strings.HasPrefix(text, "refused: ") && !strings.Contains(text, "in force") {
			t.Fatalf("it does not say what is in force: %q", text)
		}
	})
}
