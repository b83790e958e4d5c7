package chart

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// judge evaluates the chart's ValidatingAdmissionPolicies with the API server's CEL library, without an API server. Tests in e2e/install
// evaluate the policies in an API server.
type judge struct {
	t        *testing.T
	policies map[string]*registrationv1.ValidatingAdmissionPolicy
}

func newJudge(t *testing.T, values map[string]any) judge {
	t.Helper()
	r := release("all")
	for k, v := range values {
		r.Values[k] = v
	}
	objects, err := Render(r, "admission.yaml")
	if err != nil {
		t.Fatal(err)
	}
	checks, err := Render(r, "annotationchecks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects = append(objects, checks...)
	j := judge{t, map[string]*registrationv1.ValidatingAdmissionPolicy{}}
	for _, o := range objects {
		if o.GetKind() != "ValidatingAdmissionPolicy" {
			continue
		}
		p := &registrationv1.ValidatingAdmissionPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, p); err != nil {
			t.Fatal(err)
		}
		j.policies[strings.TrimPrefix(p.Name, "gpuscaler-gpuscaler-")] = p
	}
	return j
}

// request is an update of one object by gpuscaler's ServiceAccount. policy is the name of the admission policy that checks objects of this
// kind.
type request struct {
	policy, namespace, subresource string
	before, after                  map[string]any
}

// refusals returns the messages of the validations that refuse the update.
func (j judge) refusals(u request) (messages []string) {
	j.t.Helper()
	p := j.policies[u.policy]
	if p == nil {
		j.t.Fatalf("the chart has no admission policy %s", u.policy)
	}
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		j.t.Fatal(err)
	}
	var variables []cel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	declared := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	compiler.CompileAndStoreVariables(variables, declared, environment.StoredExpressions)
	var rules []cel.ExpressionAccessor
	for _, v := range p.Spec.Validations {
		rules = append(rules, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message})
	}
	condition := compiler.CompileCondition(rules, declared, environment.StoredExpressions)
	if errs := condition.CompilationErrors(); len(errs) > 0 {
		j.t.Fatal(errs)
	}
	object, old := &unstructured.Unstructured{Object: u.after}, &unstructured.Unstructured{Object: u.before}
	attributes := &admission.VersionedAttributes{VersionedObject: object, VersionedOldObject: old}
	review := &admissionv1.AdmissionRequest{Operation: admissionv1.Update, Namespace: u.namespace, SubResource: u.subresource}
	results, _, err := condition.ForInput(j.t.Context(), attributes, review, cel.OptionalVariableBindings{}, nil, 10_000_000)
	if err != nil {
		j.t.Fatal(err)
	}
	for i, r := range results {
		switch {
		case r.Error != nil:
			messages = append(messages, fmt.Sprintf("error in %s: %v", p.Spec.Validations[i].Expression, r.Error))
		case r.EvalResult.Value() != true:
			messages = append(messages, p.Spec.Validations[i].Message)
		}
	}
	return messages
}

// merge applies a JSON merge patch to an object and returns the result.
func merge(t *testing.T, object map[string]any, patch string) (out map[string]any) {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	if text, err = jsonpatch.MergePatch(text, raw); err != nil {
		t.Fatal(err)
	}
	if err := utiljson.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// nodePool returns a NodePool. consent is the value of the annotation gpuscaler.io/nudge, with which the NodePool's owner allows overrides;
// "-": no annotation.
func nodePool(t *testing.T, consent string) map[string]any {
	t.Helper()
	p := merge(t, map[string]any{}, `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: pool, labels: {team: ml}, `+
		`annotations: {owner: ml}},
  spec: {weight: 80, limits: {nvidia.com/gpu: 16}, disruption: {consolidateAfter: 30s}, template: {spec: {expireAfter: 720h}}}}`)
	if consent != "-" {
		p = merge(t, p, `{metadata: {annotations: {gpuscaler.io/nudge: "`+consent+`"}}}`)
	}
	return p
}

const (
	ourFields = `{metadata: {managedFields: [{manager: gpuscaler, operation: Apply, apiVersion: karpenter.sh/v1, fieldsType: FieldsV1, ` +
		`fieldsV1: {"f:spec": {"f:weight": {}}}}]}}`
	withRecord  = `{metadata: {annotations: {gpuscaler.io/record: "{}"}}}`
	newLimit    = `{spec: {limits: {nvidia.com/gpu: 0}}}`
	noConsent   = "allows no field"
	recordOnly  = "write only gpuscaler.io/record and gpuscaler.io/holder"
	threeFields = "only limits, weight and disruption"
)

func TestNodePoolUpdatesNeedTheOwnersConsent(t *testing.T) {
	j := newJudge(t, nil)
	for name, c := range map[string]struct {
		consent, before, patch, want string
	}{
		"an allowed limit": {"limits", "", newLimit, ""},
		"a limit and its record, among other words": {" weight , limits,restore", "",
			`{spec: {limits: null}, metadata: {annotations: {gpuscaler.io/record: x}}}`, ""},
		"disruption": {"disruption", "",
			`{spec: {disruption: {consolidateAfter: Never, budgets: [{nodes: "0"}]}}}`, ""},
		"a limit that is not allowed":             {"-", "", newLimit, noConsent},
		"the record first: step 1":                {"-", "", withRecord, noConsent},
		"the record first: step 2":                {"-", withRecord, newLimit, noConsent},
		"gpuscaler's field manager first: step 1": {"-", "", ourFields, noConsent},
		"gpuscaler's field manager first: step 2": {"-", ourFields, newLimit, noConsent},
		"another field than the allowed one":      {"weight", withRecord, newLimit, "does not allow spec.limits"},
		"disruption, but weight is allowed": {"weight", ourFields, `{spec: {disruption: {consolidateAfter: Never}}}`,
			"does not allow spec.disruption"},
		"back to the owner's value, consent withdrawn": {"-", withRecord, `{spec: {weight: 10}}`, noConsent},
		"the word restore allows no field":             {"restore", withRecord, newLimit, noConsent},
		"consent in the same update": {"-", "",
			`{metadata: {annotations: {gpuscaler.io/nudge: limits}}, spec: {limits: {nvidia.com/gpu: 0}}}`, noConsent},
		"more consent in the same update": {"weight", "", `{metadata: {annotations: {gpuscaler.io/nudge: "weight,limits"}}}`,
			recordOnly},
		"consent removed": {"weight", "", `{metadata: {annotations: {gpuscaler.io/nudge: null}}}`, recordOnly},
		"another annotation with gpuscaler's prefix": {"weight", "", `{metadata: {annotations: {gpuscaler.io/other: x}}}`, recordOnly},
		"the owner's annotation":                     {"weight", "", `{metadata: {annotations: {owner: null}}}`, recordOnly},
		"the template":                               {"limits", "", `{spec: {template: {spec: {expireAfter: 1h}}}}`, threeFields},
		"a field that Karpenter does not have yet":   {"limits", "", `{spec: {replicas: 3}}`, threeFields},
		"a field removed":                            {"limits", "", `{spec: {template: null}}`, threeFields},
		"labels": {"limits", "", `{metadata: {labels: {team: null}}}`,
			"labels, finalizers or ownerReferences"},
		"ownerReferences": {"limits", "", `{metadata: {ownerReferences: [{name: x}]}}`, "labels, finalizers or ownerReferences"},
	} {
		t.Run(name, func(t *testing.T) {
			before := nodePool(t, c.consent)
			if c.before != "" {
				before = merge(t, before, c.before)
			}
			judged(t, judge{t, j.policies}.refusals(request{policy: "nodepools", before: before, after: merge(t, before, c.patch)}), c.want)
		})
	}
	if got := j.refusals(request{policy: "nodepools", subresource: "status", before: nodePool(t, "limits"),
		after: nodePool(t, "limits")}); len(got) == 0 {
		t.Error("the status may be written")
	}
}

// judged fails the test unless one of the messages in got contains want. If want is empty, got must be empty.
func judged(t *testing.T, got []string, want string) {
	t.Helper()
	if want == "" && len(got) > 0 || want != "" && !slices.ContainsFunc(got, func(m string) bool { return strings.Contains(m, want) }) {
		t.Errorf("refused with %q, want %q", got, want)
	}
}

func TestRemovingConsentDuringAnOverrideWarns(t *testing.T) {
	j := newJudge(t, nil)
	const warning = "add the word restore"
	for name, c := range map[string]struct{ before, patch, want string }{
		"all of it":        {withRecord, `{metadata: {annotations: {gpuscaler.io/nudge: null}}}`, warning},
		"one word":         {withRecord, `{metadata: {annotations: {gpuscaler.io/nudge: weight}}}`, warning},
		"restore is added": {withRecord, `{metadata: {annotations: {gpuscaler.io/nudge: "limits,weight,restore"}}}`, ""},
		"restore is removed": {`{metadata: {annotations: {gpuscaler.io/record: x, gpuscaler.io/nudge: "limits,restore"}}}`,
			`{metadata: {annotations: {gpuscaler.io/nudge: limits}}}`, ""},
		"something else":            {withRecord, newLimit, ""},
		"the record is removed too": {withRecord, `{metadata: {annotations: null}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := merge(t, nodePool(t, "limits,weight"), c.before)
			judged(t, judge{t, j.policies}.refusals(request{policy: "nodepools-consent", before: before, after: merge(t, before, c.patch)}), c.want)
		})
	}
}

func TestScaledObjectUpdatesAreLimitedToTwoAllowedAnnotations(t *testing.T) {
	j := newJudge(t, map[string]any{"keda": map[string]any{"manage": true}})
	const (
		force, hold = "autoscaling.keda.sh/force-activation", "autoscaling.keda.sh/paused-scale-in"
		nothing     = "allows gpuscaler no annotation"
		two         = "force-activation and paused-scale-in as"
		owners      = "labels, finalizers or ownerReferences"
	)
	set := func(key, value string) string { return `{metadata: {annotations: {` + key + `: ` + value + `}}}` }
	owned := func(key string) string {
		return `{metadata: {annotations: {` + key + `: "true"}, managedFields: [{manager: gpuscaler, operation: Apply, fieldsType: FieldsV1, ` +
			`fieldsV1: {"f:metadata": {"f:annotations": {"f:` + key + `": {}}}}}]}}`
	}
	drop := func(key string) string { return `{metadata: {managedFields: [], annotations: {` + key + `: null}}}` }
	for name, c := range map[string]struct{ consent, before, patch, want string }{
		"activation":                            {"activation", "", set(force, `"true"`), ""},
		"hold":                                  {"activation, hold", "", owned(hold), ""},
		"the other word":                        {"hold", "", set(force, `"true"`), two},
		"no consent":                            {"", "", set(force, `"true"`), nothing},
		"no consent, gpuscaler's manager first": {"", set(force, `"true"`), owned(force), nothing},
		"another word, gpuscaler's manager first": {"activation", set(hold, `"true"`), owned(hold), two},
		"another value": {"activation", "", set(force, `"false"`), two},
		"gpuscaler's annotation, after consent was removed":       {"", owned(force), drop(force), ""},
		"another manager's annotation, after consent was removed": {"", set(force, `"true"`), drop(force), nothing},
		"gpuscaler's and another manager's annotation at once":    {"", `{metadata: {annotations: {` + hold + `: "true"}}}`, drop(hold), nothing},
		"gpuscaler's managedFields entry only":                    {"", owned(force), `{metadata: {managedFields: []}}`, ""},
		"consent":                                                 {"activation", "", set("gpuscaler.io/manage-keda", `"activation,hold"`), two},
		"ownerReferences": {"activation", "",
			`{metadata: {ownerReferences: [{name: x, controller: true}]}}`, owners},
		"labels":                     {"activation", "", `{metadata: {labels: {a: b}}}`, owners},
		"the spec":                   {"activation,hold", "", `{spec: {maxReplicaCount: 1000}}`, "spec or status"},
		"the status":                 {"activation,hold", "", `{status: {hpaName: x}}`, "spec or status"},
		"another annotation of KEDA": {"activation,hold", "", set("autoscaling.keda.sh/paused-replicas", `"0"`), two},
		"an annotation of the owner's, with a word": {"activation,hold", set("owner", "ml"), `{metadata: {annotations: {owner: null}}}`, two},
	} {
		t.Run(name, func(t *testing.T) {
			before := merge(t, map[string]any{}, `{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: so, namespace: team}, `+
				`spec: {maxReplicaCount: 4}}`)
			if c.consent != "" {
				before = merge(t, before, set("gpuscaler.io/manage-keda", `"`+c.consent+`"`))
			}
			if c.before != "" {
				before = merge(t, before, c.before)
			}
			judged(t, judge{t, j.policies}.refusals(request{policy: "scaledobjects", namespace: "team", before: before,
				after: merge(t, before, c.patch)}), c.want)
		})
	}
}

func TestPolicyStatusUpdatesAreLimitedToTheAnnotation(t *testing.T) {
	const (
		status   = `{metadata: {annotations: {gpuscaler.io/policy-status: "refused: line 4"}}}`
		onlyThis = "write only gpuscaler.io/policy-status"
		listed   = "only in the namespaces of the chart's policyStatus.namespaces"
		content  = "the spec, the status or the data"
		hpa      = `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: chat, annotations: {owner: ml}}, ` +
			`spec: {maxReplicas: 4}}`
		configMap = `{apiVersion: v1, kind: ConfigMap, metadata: {name: policies, labels: {gpuscaler.io/policy: "true"}}, data: {a.yaml: b}}`
		scaled    = `{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: so}, spec: {maxReplicaCount: 4}}`
	)
	where := map[string]any{"namespaces": []any{"team", "team-b"}}
	without := newJudge(t, map[string]any{"policyStatus": where})
	with := newJudge(t, map[string]any{"policyStatus": where, "keda": map[string]any{"manage": true}})
	for name, c := range map[string]struct{ object, patch, namespace, want string }{
		"an HPA":                         {hpa, status, "team", ""},
		"a ConfigMap":                    {configMap, status, "team-b", ""},
		"a ScaledObject":                 {scaled, status, "team", ""},
		"an HPA elsewhere":               {hpa, status, "team-c", listed},
		"a ScaledObject elsewhere":       {scaled, status, "team-c", ""}, // the code below this table checks the different message
		"the bounds of an HPA":           {hpa, `{spec: {maxReplicas: 1000}}`, "team", content},
		"the status of an HPA":           {hpa, `{status: {desiredReplicas: 1000}}`, "team", content},
		"a ConfigMap's data":             {configMap, `{data: {a.yaml: c}}`, "team", content},
		"a ConfigMap's binaryData":       {configMap, `{binaryData: {b: Yg==}}`, "team", content},
		"a ConfigMap that becomes fixed": {configMap, `{immutable: true}`, "team", content},
		"a ConfigMap's label": {configMap, `{metadata: {labels: {gpuscaler.io/policy: null}}}`, "team",
			"labels, finalizers or ownerReferences"},
		"the owner of an HPA":          {hpa, `{metadata: {ownerReferences: [{name: x}]}}`, "team", "labels, finalizers or ownerReferences"},
		"the policy of an HPA":         {hpa, `{metadata: {annotations: {gpuscaler.io/spec: "mode: hold"}}}`, "team", onlyThis},
		"another annotation of an HPA": {hpa, `{metadata: {annotations: {owner: null}}}`, "team", onlyThis},
	} {
		t.Run(name, func(t *testing.T) {
			before := merge(t, map[string]any{}, c.object)
			u := request{policy: "policystatus", namespace: c.namespace, before: before, after: merge(t, before, c.patch)}
			if c.object != scaled {
				judged(t, judge{t, with.policies}.refusals(u), c.want)
			}
			if name == "a ScaledObject elsewhere" {
				judged(t, judge{t, without.policies}.refusals(u), listed)
				u.policy = "scaledobjects"
				judged(t, judge{t, with.policies}.refusals(u), "allows gpuscaler no annotation")
				return
			}
			judged(t, judge{t, without.policies}.refusals(u), c.want)
			if u.policy = "scaledobjects"; c.object == scaled {
				judged(t, judge{t, with.policies}.refusals(u), c.want)
			}
		})
	}
	for _, j := range []judge{with, without} {
		checks := false
		for _, rule := range j.policies["policystatus"].Spec.MatchConstraints.ResourceRules {
			checks = checks || slices.Contains(rule.Resources, "scaledobjects")
		}
		if (j.policies["scaledobjects"] == nil) != checks {
			t.Error("ScaledObjects must be checked by exactly one of the two policies")
		}
	}
}

func TestScaleUpdatesAreLimitedToZeroAndOneInListedNamespaces(t *testing.T) {
	scale := func(n int) map[string]any {
		spec := map[string]any{}
		if n > 0 {
			spec["replicas"] = int64(n) // the API server omits the field if it is 0
		}
		return map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": map[string]any{"name": "chat"}, "spec": spec}
	}
	j := newJudge(t, map[string]any{"activator": map[string]any{"namespaces": []any{"team-a", "team-b"}}})
	for _, c := range []struct {
		namespace string
		from, to  int
		want      string
	}{
		{"team-a", 0, 1, ""}, {"team-b", 1, 0, ""}, {"team-c", 0, 1, "activator.namespaces"}, {"team", 0, 1, "activator.namespaces"},
		{"team-a", 0, 2, "from 0 to 1"}, {"team-a", 1, 2, "from 0 to 1"}, {"team-a", 2, 1, "from 0 to 1"}, {"team-a", 5, 0, "from 0 to 1"},
		{"team-a", 1, 1, "from 0 to 1"}, {"team-a", 0, 500, "from 0 to 1"},
	} {
		got := j.refusals(request{policy: "scale", namespace: c.namespace, subresource: "scale", before: scale(c.from), after: scale(c.to)})
		t.Run(fmt.Sprintf("%s %d to %d", c.namespace, c.from, c.to), func(t *testing.T) { judged(t, got, c.want) })
	}
	none := newJudge(t, nil)
	judged(t, none.refusals(request{policy: "scale", namespace: "team-a", subresource: "scale", before: scale(0), after: scale(1)}),
		"activator.namespaces")
}
