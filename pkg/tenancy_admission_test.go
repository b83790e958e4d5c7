package pkg_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

const (
	releaseNamespace = "gpuscaler-system"
	ourAccount       = "system:serviceaccount:" + releaseNamespace + ":gpuscaler"
	activated        = "team-chat" // the only namespace in activator.namespaces
)

// shipped returns the content of a file of the repository. `make defences` can replace the content with an edited copy.
func shipped(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", path))
	if err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	if file := os.Getenv("HOSTILE_OVERLAY"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &overlay); err != nil {
			t.Fatal(err)
		}
		if to, ok := overlay.Replace[path]; ok {
			path = to
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// admissionRules contains the chart's ValidatingAdmissionPolicies and their bindings. The API server's CEL library evaluates them.
type admissionRules struct {
	policies []*registrationv1.ValidatingAdmissionPolicy
	denied   map[string]bool // policies with a binding that denies requests
}

// newAdmissionRules renders the chart's template without Helm, because the template uses few functions. Tests in e2e/chart render it with
// Helm, and tests in e2e/install evaluate the rules in an API server.
func newAdmissionRules(t *testing.T) admissionRules {
	t.Helper()
	funcs := template.FuncMap{
		"include": func(name string, _ any) string {
			return map[string]string{"gpuscaler.serviceAccount": "gpuscaler", "gpuscaler.karpenter": "true",
				"gpuscaler.labels": "a: b", "gpuscaler.fullname": "gpuscaler"}[name]
		},
		"nindent": func(n int, text string) string { return "\n" + strings.Repeat(" ", n) + text },
		"list":    func(all ...any) []any { return all },
		"replace": func(old, new, text string) string { return strings.ReplaceAll(text, old, new) },
		"toJson": func(v any) (string, error) {
			text, err := json.Marshal(v)
			return string(text), err
		},
	}
	parsed, err := template.New("admission").Funcs(funcs).Parse(shipped(t, "charts/gpuscaler/templates/admission.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	err = parsed.Execute(&text, map[string]any{
		"Release": map[string]any{"Name": "gpuscaler", "Namespace": releaseNamespace},
		"Values": map[string]any{"keda": map[string]any{"manage": true}, "scaleKinds": []any{},
			"activator": map[string]any{"namespaces": []string{activated}}, "policyStatus": map[string]any{"namespaces": []string{activated}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	rules := admissionRules{denied: map[string]bool{}}
	for _, document := range strings.Split(text.String(), "\n---") {
		var p registrationv1.ValidatingAdmissionPolicy
		var b registrationv1.ValidatingAdmissionPolicyBinding
		if err := yaml.Unmarshal([]byte(document), &p); err != nil {
			t.Fatalf("%v in %s", err, document)
		}
		switch p.Kind {
		case "ValidatingAdmissionPolicy":
			rules.policies = append(rules.policies, &p)
		case "ValidatingAdmissionPolicyBinding":
			if err := yaml.Unmarshal([]byte(document), &b); err != nil {
				t.Fatal(err)
			}
			if slices.Contains(b.Spec.ValidationActions, registrationv1.Deny) && b.Spec.MatchResources == nil {
				rules.denied[b.Spec.PolicyName] = true
			}
		}
	}
	return rules
}

// apiWrite is a write request of gpuscaler's ServiceAccount. before is nil for a CREATE, and after is nil for a DELETE.
type apiWrite struct {
	group, resource, subresource, namespace string
	before, after                           map[string]any
}

// verdict returns the message of the first ValidatingAdmissionPolicy that refuses the write. If none refuses it, verdict returns
// "accepted".
func (a admissionRules) verdict(t *testing.T, w apiWrite) string {
	t.Helper()
	for _, p := range a.policies {
		if !a.denied[p.Name] || *p.Spec.FailurePolicy != registrationv1.Fail || !a.concerns(p, w) {
			continue
		}
		if message := evaluate(t, p, w); message != "" {
			return "refused: " + message
		}
	}
	return "accepted"
}

func (w apiWrite) operation() admissionv1.Operation {
	switch {
	case w.before == nil:
		return admissionv1.Create
	case w.after == nil:
		return admissionv1.Delete
	}
	return admissionv1.Update
}

// concerns reports whether the match rules of a ValidatingAdmissionPolicy select the resource and the operation of a write.
func (a admissionRules) concerns(p *registrationv1.ValidatingAdmissionPolicy, w apiWrite) bool {
	resource := w.resource
	if w.subresource != "" {
		resource += "/" + w.subresource
	}
	return slices.ContainsFunc(p.Spec.MatchConstraints.ResourceRules, func(r registrationv1.NamedRuleWithOperations) bool {
		return slices.Contains(r.APIGroups, w.group) && slices.Contains(r.Operations, registrationv1.OperationType(w.operation())) &&
			(slices.Contains(r.Resources, resource) || w.subresource != "" && slices.Contains(r.Resources, w.resource+"/*"))
	})
}

// evaluate returns the message of the first validation of the policy p that refuses a write. It returns "" if no validation refuses the
// write, or if a match condition excludes it.
func evaluate(t *testing.T, p *registrationv1.ValidatingAdmissionPolicy, w apiWrite) string {
	t.Helper()
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	declared := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	var variables []cel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, declared, environment.StoredExpressions)
	expressions, messages := []cel.ExpressionAccessor{}, []string{}
	for _, c := range p.Spec.MatchConditions {
		expressions, messages = append(expressions, &validating.ValidationCondition{Expression: c.Expression}), append(messages, "")
	}
	for _, v := range p.Spec.Validations {
		expressions, messages = append(expressions, &validating.ValidationCondition{Expression: v.Expression}), append(messages, v.Message)
	}
	condition := compiler.CompileCondition(expressions, declared, environment.StoredExpressions)
	if errs := condition.CompilationErrors(); len(errs) > 0 {
		t.Fatal(errs)
	}
	attributes := &admission.VersionedAttributes{}
	if w.after != nil {
		attributes.VersionedObject = &unstructured.Unstructured{Object: w.after}
	}
	if w.before != nil {
		attributes.VersionedOldObject = &unstructured.Unstructured{Object: w.before}
	}
	review := &admissionv1.AdmissionRequest{Operation: w.operation(), Namespace: w.namespace, SubResource: w.subresource,
		UserInfo: authenticationv1.UserInfo{Username: ourAccount}}
	results, _, err := condition.ForInput(t.Context(), attributes, review, cel.OptionalVariableBindings{}, nil, 10_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		switch refused := r.Error != nil || r.EvalResult.Value() != true; {
		case refused && i < len(p.Spec.MatchConditions):
			return ""
		case r.Error != nil:
			return r.Error.Error() // with failurePolicy Fail, an error of the expression refuses the write
		case refused:
			return messages[i]
		}
	}
	return ""
}

// patched returns a copy of an object after applying JSON merge patches, which are written in YAML.
func patched(t *testing.T, object map[string]any, patches ...string) map[string]any {
	t.Helper()
	for _, patch := range patches {
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
		object = nil
		if err := utiljson.Unmarshal(text, &object); err != nil {
			t.Fatal(err)
		}
	}
	return object
}

// admissionEntrance returns the attacks with write requests of gpuscaler's ServiceAccount. The roles of the ServiceAccount permit writes to
// all fields of the resources, so only the admission rules can refuse a request.
func admissionEntrance(t *testing.T) entrance {
	rules := newAdmissionRules(t)
	const (
		pool = `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: pool, annotations: {owner: ml}}, spec: {limits: ` +
			`{nvidia.com/gpu: 16}, template: {spec: {expireAfter: 720h}}}}`
		so  = `{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: so, namespace: team-chat}, spec: {maxReplicaCount: 4}}`
		pod = `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: team-chat, labels: {app: x}}, spec: {containers: [{name: a, ` +
			`image: "good"}]}}`
		scale = `{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: chat}, spec: {replicas: 1}}`
		hpa   = `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: chat}, spec: {maxReplicas: 4}}`
		team  = `{apiVersion: v1, kind: ConfigMap, metadata: {name: policies}, data: {a.yaml: "kind: ScalingPolicy"}}`
		state = `{metadata: {annotations: {gpuscaler.io/policy-status: "refused: line 4"}}}`
		limit = `{spec: {limits: {nvidia.com/gpu: 0}}}`
	)
	consent := func(words string) string { return `{metadata: {annotations: {gpuscaler.io/nudge: "` + words + `"}}}` }
	manage := `{metadata: {annotations: {gpuscaler.io/manage-keda: "activation,hold"}}}`
	// try returns an attempt to apply a patch to an object, which consists of base and the patches in state.
	try := func(w apiWrite, base, patch string, state ...string) func(*testing.T) string {
		return func(t *testing.T) string {
			w := w
			w.before = patched(t, map[string]any{}, append([]string{base}, state...)...)
			if patch != "" {
				w.after = patched(t, w.before, patch)
			}
			return rules.verdict(t, w)
		}
	}
	pools := apiWrite{group: "karpenter.sh", resource: "nodepools"}
	objects := apiWrite{group: "keda.sh", resource: "scaledobjects", namespace: activated}
	pods := apiWrite{resource: "pods", namespace: activated}
	configMaps := apiWrite{resource: "configmaps", namespace: activated}
	hpas := func(namespace string) apiWrite {
		return apiWrite{group: "autoscaling", resource: "horizontalpodautoscalers", namespace: namespace}
	}
	scales := func(namespace string) apiWrite {
		return apiWrite{group: "apps", resource: "deployments", subresource: "scale", namespace: namespace}
	}
	subresource := func(w apiWrite, name string) apiWrite { w.subresource = name; return w }
	replicas := func(n string) string { return `{spec: {replicas: ` + n + `}}` }
	return entrance{inAdmission[:len(inAdmission)-2],
		"A process with the token of gpuscaler's ServiceAccount, whose roles permit these resources as a whole.", []attempt{
			{"an override that the NodePool's owner permits, as a control", "", "accepted", try(pools, pool, limit, consent("limits"))},
			{"a limit of a NodePool without consent", "", "allows no field", try(pools, pool, limit)},
			{"gpuscaler's record on a NodePool without consent, as the first of two patches", "", "allows no field", try(pools, pool,
				`{metadata: {annotations: {gpuscaler.io/record: "{}"}}}`)},
			{"a limit of a NodePool with a record but without consent, as the second of two patches", "", "allows no field", try(pools, pool,
				limit, `{metadata: {annotations: {gpuscaler.io/record: "{}"}}}`)},
			{"a limit where the owner permits the weight", "", "does not allow spec.limits", try(pools, pool, limit, consent("weight"))},
			{"consent that gpuscaler gives itself", "", "write only gpuscaler.io/record", try(pools, pool, consent("weight,limits"),
				consent("weight"))},
			{"a NodePool's template", "", "only limits, weight and disruption", try(pools, pool,
				`{spec: {template: {spec: {expireAfter: 1s}}}}`, consent("limits"))},
			{"a NodePool's ownerReferences, so that garbage collection deletes it", "", "ownerReferences", try(pools, pool,
				`{metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: x, uid: u}]}}`, consent("limits"))},
			{"a NodePool's status", "", "subresources", try(subresource(pools, "status"), pool, `{status: {nodes: 0}}`, consent("limits"))},
			{"the deletion of a NodePool", "", "may not create or delete", try(pools, pool, "", consent("limits"))},
			{"a first replica in a namespace that the chart lists, as a control", "", "accepted", try(scales(activated), scale, replicas("1"),
				replicas("0"))},
			{"a first replica in a namespace that the chart does not list", "", "only in the namespaces", try(scales("kube-system"), scale,
				replicas("1"), replicas("0"))},
			{"500 replicas through /scale", "", "only from 0 to 1", try(scales(activated), scale, replicas("500"))},
			{"ten replicas to none through /scale", "", "only from 0 to 1", try(scales(activated), scale, replicas("0"), replicas("10"))},
			{"a ScaledObject's ownerReferences, so that garbage collection deletes it", "", "ownerReferences", try(objects, so,
				`{metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: x, uid: u}]}}`, manage)},
			{"a ScaledObject's maxReplicaCount", "", "spec or status", try(objects, so, `{spec: {maxReplicaCount: 1000}}`, manage)},
			{"an annotation of KEDA without consent", "", "allows gpuscaler no annotation", try(objects, so,
				`{metadata: {annotations: {autoscaling.keda.sh/force-activation: "true"}}}`)},
			{"KEDA's annotation paused-replicas", "", "force-activation and paused-scale-in", try(objects, so,
				`{metadata: {annotations: {autoscaling.keda.sh/paused-replicas: "0"}}}`, manage)},
			{"the deletion of a ScaledObject", "", "may not create or delete", try(objects, so, "", manage)},
			{"the status of a policy on its HPA, as a control", "", "accepted", try(hpas(activated), hpa, state)},
			{"the status of a policy in a namespace that the chart does not list", "", "only in the namespaces", try(hpas("kube-system"), hpa,
				state)},
			{"an HPA's maxReplicas", "", "the spec, the status or the data", try(hpas(activated), hpa, `{spec: {maxReplicas: 1000}}`)},
			{"a policy in the annotations of an HPA", "", "only gpuscaler.io/policy-status", try(hpas(activated), hpa,
				`{metadata: {annotations: {gpuscaler.io/spec: "mode: hold"}}}`)},
			{"a policy in a team's ConfigMap", "", "the spec, the status or the data", try(configMaps, team, `{data: {a.yaml: ""}}`)},
			{"the deletion of a team's ConfigMap", "", "may not create or delete", try(configMaps, team, "")},
			{"another image for a pod", "", "may not change a pod's spec", try(pods, pod, `{spec: {containers: [{name: a, image: "evil"}]}}`)},
			{"a label of a pod, so that a Service selects it", "", "of a pod's labels", try(pods, pod, `{metadata: {labels: {app: bank}}}`)},
			{"the leader label on a tenant's pod, so that gpuscaler's Service selects it", "", "of a pod's labels", try(pods, pod,
				`{metadata: {labels: {gpuscaler.io/leader: "true"}}}`)},
			{"the deletion of a pod", "", "may not create or delete", try(pods, pod, "")},
		}}
}
