package pkg_test

import "slices"

// removals contains all removals that TestEachRowFailsWithoutItsDefence applies. Each removal disables one defence against hostile input.
var removals = slices.Concat(policyRemovals, admissionRemovals, interfaceRemovals)

const (
	compileSources = "pkg/policy/compile/sources.go"
	compilePolicy  = "pkg/policy/compile/policy.go"
	compileSignals = "pkg/policy/compile/signals.go"
	compileTargets = "pkg/policy/compile/targets.go"
	promSelection  = "pkg/policy/promql/selection.go"
	yamlDecode     = "pkg/policy/decode/decode.go"
	storeDocument  = "pkg/policy/store/document.go"
	storePaths     = "pkg/policy/store/paths.go"
	storeMaps      = "pkg/policy/store/configmaps.go"
	storeClaims    = "pkg/policy/store/claims.go"
	storeVersions  = "pkg/policy/store/versions.go"
	storeObjects   = "pkg/policy/store/objects.go"
	objectRules    = "pkg/policy/store/objectrules.go"
	scheduleWindow = "pkg/policy/schedule/window.go"
	operatorText   = "pkg/policy/annotations/operator.go"
	admissionRows  = "charts/gpuscaler/templates/admission.yaml"
)

// policyRemovals contains removals for the defences against hostile policy files and annotations.
var policyRemovals = []removal{
	// References to the PlatformConfig
	{what: "the check that a data source exists", rows: slices.Concat(
		of(inFiles, "a URL in the place of a data source's name", "a file as a data source", "further words behind a data source's name"),
		of(inObjects, "a URL as the queue's source")),
		edits: []edit{{compileSources, "case d == nil:\n\t\tvar names []string\n\t\tfor _, known := range c.Platform.DataSources",
			"case d == nil:\n\t\treturn s.Source\n\tcase len(types) < 0:\n\t\tvar names []string\n\t\tfor _, known := range " +
				"c.Platform.DataSources"}}},
	{what: "the namespaces of a data source", rows: slices.Concat(of(inFiles, "another namespace's data source"),
		of(inObjects, "another namespace's Redis as the queue's source", "a trigger's metadata that names another's source")),
		edits: []edit{{compileSources, "case !d.Allows(c.Key.Namespace):", "case !d.Allows(c.Key.Namespace) && s == nil:"}}},
	{what: "the namespaces of a query's data source", rows: of(inFiles, "a query of the platform over another namespace's data source"),
		edits: []edit{{compileSources, "if d != nil && !d.Allows(c.Key.Namespace) {",
			`if d != nil && d.Name == "" && !d.Allows(c.Key.Namespace) {`}}},
	{what: "the check that a query exists", rows: of(inObjects, "PromQL as the queue's source"),
		edits: []edit{{compileSources, "if q == nil {", "if q == nil {\n\t\treturn\n\t}\n\tif false {"}}},
	{what: "the teams of a capacity group", rows: slices.Concat(of(inFiles, "another team's capacity group"), of(inObjects,
		"another team's capacity group")),
		edits: []edit{{compilePolicy, "case !slices.Contains(allowed, name):", "case !slices.Contains(allowed, name) && p == nil:"}}},
	{what: "the teams of a ClusterQueue", rows: of(inFiles, "the backlog of a ClusterQueue that the team does not list"),
		edits: []edit{{compileSignals, "if !c.Platform.MayRead(c.Key.Namespace, s.ClusterQueue) {", "if false {"}}},
	{what: "the bounds of the PlatformConfig", rows: slices.Concat(of(inFiles, "more replicas than the platform allows"),
		of(inObjects, "bounds beyond the platform's, by the HPA's own maxReplicas")),
		edits: []edit{{compilePolicy, "bounds.Narrow(low, high)", "low, high"}}},

	// PromQL
	{what: "the check of a metric's name", rows: of(inFiles, "PromQL in the place of a metric", "a metric whose name ends the selector",
		"a metric in letters that look alike"),
		edits: []edit{{promSelection, "if !model.LegacyValidation.IsValidMetricName(s.Metric) {", `if s.Metric == "" {`}}},
	{what: "the check of a label's name", rows: of(inFiles, "PromQL in a label's name"),
		edits: []edit{{promSelection, "if !model.LegacyValidation.IsValidLabelName(name) {", `if name == "" {`}}},
	{what: "the quotes around a label's value", rows: of(inFiles, "a label's value that ends the selector",
		"a label's value that comments out the rest", "a label's value with a new line"),
		edits: []edit{
			{promSelection, "text := expr.String()", "text := expr.String()\n\tfor _, v := range s.Labels {\n\t\ttext = " +
				"strings.ReplaceAll(text, strconv.Quote(v), `\"`+v+`\"`)\n\t}"},
			{promSelection, "\t\"slices\"\n", "\t\"slices\"\n\t\"strconv\"\n\t\"strings\"\n"}}},
	{what: "the exact comparison of a label's value", rows: of(inFiles, "a label's value that is a regular expression"),
		edits: []edit{{promSelection, "promlabels.MustNewMatcher(promlabels.MatchEqual, name, value))",
			"promlabels.MustNewMatcher(promlabels.MatchRegexp, name, value))"}}},
	{what: "the labels that gpuscaler sets", rows: append(of(inFiles, "another namespace by label"),
		inObjects+"a spec that reaches for another namespace"),
		edits: []edit{{compileSources, "if name == d.NamespaceLabel || strings.HasPrefix(name, \"__\") {",
			"if name == \"\" && strings.HasPrefix(name, \"__\") {"}}},
	{what: "both checks of a metric's name in a label", rows: of(inFiles, "another metric by label"),
		overlap: "the check of labels and the parser of Prometheus each refuse the second name, so that the row fails only without both",
		edits: []edit{
			{compileSources, "if name == d.NamespaceLabel || strings.HasPrefix(name, \"__\") {",
				"if name == d.NamespaceLabel && strings.HasPrefix(name, \"__\") {"},
			{promSelection, "_, err := Parse(text)\n\treturn text, err", "_, _ = Parse(text)\n\treturn text, nil"}}},

	// Unknown fields and values of fields
	{what: "the check of unknown fields", rows: slices.Concat(
		of(inFiles, "an address of one's own, by KEDA's field", "a password file of one's own", "another's credentials, by KEDA's field",
			"a target in another namespace", "aliases of aliases: a thousand million values in ten lines"), of(inObjects, "a spec that is a bomb"),
		of(inMaps, "an alias bomb")),
		edits: []edit{{yamlDecode, "f, known := table.ByName[key.Value]\n\t\tif !known {",
			"f, known := table.ByName[key.Value]\n\t\tif !known {\n\t\t\tcontinue\n\t\t}\n\t\tif false {"}}},
	{what: "the limit of a document's values", rows: of(inFiles, "one signal thirty thousand times, by aliases", "ten thousand signals"),
		edits: []edit{{yamlDecode, "maxNodes = 20000", "maxNodes = 20000000"}}},
	{what: "the check of a field that is written twice", rows: of(inFiles, "a field twice, of which the first is shown in a review"),
		edits: []edit{{yamlDecode, "if line, twice := first[key.Value]; twice {", "if line, twice := first[key.Value]; twice && line < 0 {"}}},
	{what: "the check of a whole number", rows: of(inFiles, "more replicas than a number holds", "replicas in hexadecimal"),
		edits: []edit{{yamlDecode, `if n.Tag != "!!int" || err != nil || whole < 0 || whole > math.MaxInt32 {`, "if err != nil && whole < 0 {"}}},
	{what: "the check of characters", rows: of(inFiles, "a schedule's name that clears the terminal",
		"a schedule's name with a turned-round end",
		"Redis commands in a list's name, with carriage returns", "a Redis list with an escape sequence in its name"),
		edits: []edit{{yamlDecode, "if !printable.Is(n.Value) {", "if !printable.Is(n.Value) && n.Line < 0 {"}}},
	{what: "the check of a target's form", rows: append(of(inFiles, "a target that is no number", "an endless target"),
		inObjects+"a GPU target that is an expression"),
		edits: []edit{{"pkg/policy/spec/scalars.go", `return errors.New("is not a number, a percentage or a time")`, "return nil"}}},
	{what: "the range of a target", rows: of(inFiles, "a negative target"),
		edits: []edit{{"pkg/policy/spec/scalars.go", "if math.IsInf(v, 0) || v < 0 || v > 1e12 {", "if math.IsInf(v, 0) {"}}},
	{what: "the check that a target is above 0", rows: of(inObjects, "a GPU target of zero"),
		edits: []edit{{compileTargets, "if signal.Target <= 0 {", "if signal.Target < 0 {"}}},
	{what: "the maximum of a percentage", rows: of(inObjects, "a GPU target of a million"),
		edits: []edit{{compileTargets, "if a.Value > 100 {", "if a.Value < 0 {"}}},
	{what: "the greatest number of replicas", rows: of(inObjects, "an HPA with two thousand million replicas"),
		edits: []edit{{compilePolicy, "case high > policy.ReplicaLimit:", "case high > policy.ReplicaLimit && low < 0:"}}},

	// Names of policies and of other objects
	{what: "the check of a policy's name", rows: of(inFiles, "a name with a turned-round end", "a name that is a path",
		"a name of a thousand letters"),
		edits: []edit{{storeDocument, "validation.IsValidLabelValue(name)...); len(faults) > 0 {",
			"validation.IsValidLabelValue(name)...); len(faults) > 1000 {"}}},
	{what: "the check of a policy's name in an annotation", rows: of(inObjects, "a policy name that is a label selector"),
		edits: []edit{{storeObjects, "validation.IsValidLabelValue(key.Name)...); len(faults) > 0 {",
			"validation.IsValidLabelValue(key.Name)...); len(faults) > 1000 {"}}},
	{what: "the check of a target's name", rows: of(inFiles, "a path as a target's name"),
		edits: []edit{{compilePolicy, `if t.Name != "" && len(validation.IsDNS1123Subdomain(t.Name)) > 0 {`,
			`if t.Name == "" && len(validation.IsDNS1123Subdomain(t.Name)) > 0 {`}}},
	{what: "the check of a queue's name", rows: of(inFiles, "a ClusterQueue whose name ends the selector"),
		edits: []edit{{compileSignals, `if name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {`,
			`if name == "" && len(validation.IsDNS1123Subdomain(name)) > 1000 {`}}},
	{what: "the check of a schedule's name", rows: of(inFiles, "a schedule's name of several lines", "a schedule's name of 200,000 letters"),
		edits: []edit{{scheduleWindow, `if w.Name != "" && !scheduleName.MatchString(w.Name) {`,
			`if w.Name == "" && !scheduleName.MatchString(w.Name) {`}}},

	// Schedules and formulas
	{what: "the check of a time zone", rows: of(inFiles, "a zone that is a path"),
		edits: []edit{{scheduleWindow, "if w.Timezone != \"\" {", "if w.Timezone == \"\" {"}}},
	{what: "the check of a cron expression", rows: of(inFiles, "a schedule that fires without end"),
		edits: []edit{{scheduleWindow, "c, err := parseCron(text)\n\tif err != nil {",
			"c, err := parseCron(text)\n\tif err != nil && text == \"\" {"}}},
	{what: "the check of a schedule's line", rows: of(inObjects, "a schedule that is a path"),
		edits: []edit{{"pkg/policy/annotations/schedule.go", "if len(words) < 4 {",
			"if len(words) < 4 {\n\t\treturn spec.Schedule{}, nil\n\t}\n\tif false {"}}},
	{what: "the formula language without loops", rows: of(inFiles, "a formula that loops"),
		edits: []edit{{"pkg/policy/formula/formula.go", "cel.ClearMacros(), cel.Macros(cel.HasMacro),", ""}}},
	{what: "the limit of a formula", rows: of(inFiles, "a formula of a megabyte"),
		edits: []edit{{"pkg/policy/formula/formula.go", "maxFormula     = 1000", "maxFormula     = 10000000"}}},

	// Paths of files
	{what: "the path of the PlatformConfig", rows: append(of(inFiles, "a second PlatformConfig in a tenant's file",
		"a PlatformConfig that holds the whole cluster"), inMaps+"a PlatformConfig that holds the whole cluster"),
		edits: []edit{{storePaths, "case d.kind == spec.KindPlatformConfig && !d.path.Platform:",
			"case d.kind == spec.KindPlatformConfig && d.key.Name == \"\":"}}},
	{what: "the namespaces of a path", rows: append(of(inFiles, "a policy of another namespace", "another tenant's policy by its name"),
		of(inMaps, "another tenant's policy by its name", "a policy of the namespace kube-system")...),
		edits: []edit{{storePaths, `d.key.Namespace != "" && !d.path.accepts(d.key.Namespace):`, `d.key.Namespace == "":`}}},

	// ConfigMaps of teams
	{what: "the permission for ConfigMaps", rows: of(inMaps, "a namespace whose ConfigMaps are not accepted"),
		edits: []edit{{storeMaps, "t != nil && t.ConfigMaps {", "t != nil {"}}},
	{what: "the order of files and ConfigMaps", rows: of(inMaps, "the name of a policy in a file"),
		edits: []edit{{storeVersions, "if first := next[id]; first != nil {",
			"if first := next[id]; first != nil && (!d.path.configMap || first.doc.path.configMap) {"}}},
	{what: "the precedence of files for a workload", rows: of(inMaps, "the workload of a policy in a file, by another name"),
		edits: []edit{{storeClaims, " || c.rank.yieldsTo(first[target])", ""}}},
	{what: "the size limit of a ConfigMap", rows: of(inMaps, "a ConfigMap of a megabyte"),
		edits: []edit{{storeMaps, "if o.Bytes > MaxConfigMapBytes {", "if o.Bytes > 100*MaxConfigMapBytes {"}}},
	{what: "the limit of documents in a ConfigMap", rows: of(inMaps, "a hundred and one policies"),
		edits: []edit{{storeMaps, "if documents > maxConfigMapDocuments {", "if documents > 100*maxConfigMapDocuments {"}}},
	{what: "the limit of reported problems", rows: of(inMaps, "ninety mistakes, each of which would be an Event"),
		edits: []edit{{storeMaps, "maxConfigMapProblems  = 20 ", "maxConfigMapProblems  = 2000 "}}},

	// HPAs and ScaledObjects
	{what: "the check that a policy of a file exists", rows: of(inObjects, "another namespace's policy by name",
		"another namespace's policy by a name that it has"),
		edits: []edit{{objectRules, `if n == 1 && field != "" {`, `if n == 1 && field == "" {`}}},
	{what: "the target of the object", rows: of(inObjects, "a spec with another target"),
		edits: []edit{{objectRules, "if written.ScaleTargetRef != nil {", "if written.ScaleTargetRef != nil && o.Name == \"\" {"}}},
	{what: "the bounds of the object", rows: of(inObjects, "a spec with bounds of its own"),
		edits: []edit{{objectRules, "if written.MaxReplicas != nil {", "if written.MaxReplicas != nil && o.Name == \"\" {"}}},
	{what: "one writer of the first replica", rows: of(inObjects, "a second writer of the first replica beside KEDA"),
		edits: []edit{{objectRules, `if o.Kind == "ScaledObject" && written.Activate != nil`, `if o.Kind == "" && written.Activate != nil`}}},
	{what: "the triggers of the ScaledObject", rows: of(inObjects, "a trigger of a ScaledObject that there is not"),
		edits: []edit{{compilePolicy, "if c.Object == nil || c.Object.Triggers == nil", "if c.Object != nil || c.Object.Triggers == nil"}}},
	{what: "one object for a policy", rows: of(inObjects, "a second HPA that claims the same policy"),
		edits: []edit{{storeObjects, "carried && other != o.key() {", `carried && other != o.key() && key.Name == "" {`}}},
	{what: "one policy for a workload", rows: of(inObjects, "a second policy for the same workload"),
		edits: []edit{{storeObjects, "taken && owner != key.Name && !s.yields(owner, o) {", `taken && owner == "" {`}}},
	{what: "the modes of the annotation", rows: of(inObjects, "a mode that there is not"),
		edits: []edit{{"pkg/policy/annotations/overlay.go", "!slices.Contains(modes, v) {", `!slices.Contains(modes, v) && v == "" {`}}},
	{what: "the check of annotations", rows: of(inObjects, "an annotation with a similar name"),
		edits: []edit{{"pkg/policy/annotations/annotations.go",
			"if strings.HasPrefix(key, Prefix) && !slices.Contains(known, key) && !c.Full() {",
			`if strings.HasPrefix(key, Prefix) && !slices.Contains(known, key) && key == "" {`}}},
	{what: "the check of the YAML of an annotation", rows: of(inObjects, "a spec that is a list of lists", "a spec that is no YAML"),
		edits: []edit{{"pkg/policy/annotations/overlay.go", "case errors.Is(err, io.EOF):", "case err != nil:"}}},

	{what: "the greatest number of problems", rows: of(inObjects, "a spec of ten thousand fields that do not exist"),
		edits: []edit{{"pkg/policy/decode/collector.go", "maxProblems = 100", "maxProblems = 1 << 30"}}},
	{what: "the length of the lists in an annotation", rows: of(inObjects, "a spec of three thousand signals"),
		edits: []edit{{"pkg/policy/annotations/overlay.go", "if n <= most {", "if n >= 0 {"}}},
	{what: "the number of lines with schedules", rows: of(inObjects, "ten thousand schedules, one a line"),
		edits: []edit{{"pkg/policy/annotations/schedule.go", "if count++; count > scaling.MaxSchedules {", "if count++; count < 0 {"}}},

	// Annotations of operators: pause and override
	{what: "the end of an override", rows: of(inOperator, "an override without an end"),
		edits: []edit{{operatorText, "case o.Until.IsZero():", "case o.Until.IsZero() && len(text) == 0:"}}},
	{what: "the check of an override's time", rows: of(inOperator, "an override that ends never"),
		edits: []edit{{operatorText, `return time.Time{}, fmt.Errorf("%s is not a time with a time zone", wording.Quote(text))`,
			"return time.Unix(1<<33, 0), nil"}}},
	{what: "the check of an override's replicas", rows: of(inOperator, "an override of more replicas than a number holds",
		"an override of fewer than none", "an override in digits of another script"),
		edits: []edit{{operatorText, "if err != nil || n < 0 || n > int64(policy.ReplicaLimit) {",
			"if err != nil && n > int64(policy.ReplicaLimit)<<32 {"}}},
	{what: "the check of repeated keys", rows: of(inOperator, "an override with a repeated key"),
		edits: []edit{{operatorText, "if used[key] {", `if used[key] && key == "" {`}}},
	{what: "the check that min is not above max", rows: of(inOperator, "an override upside down"),
		edits: []edit{{operatorText, "case o.Min >= 0 && o.Max >= 0 && o.Min > o.Max:",
			"case o.Min >= 0 && o.Max < 0 && o.Min > o.Max && text == \"\":"}}},
	{what: "the pause by a text that is neither true nor false", rows: of(inOperator, "a pause that is a sentence"),
		edits: []edit{{operatorText, "o.Paused = paused || err != nil", "o.Paused = paused"}}},
}

// admissionRemovals contains removals for the ValidatingAdmissionPolicies of the chart. Each removal disables one expression.
var admissionRemovals = []removal{
	{what: "the consent of a NodePool's owner", rows: of(inAdmission, "a limit of a NodePool without consent",
		"gpuscaler's record on a NodePool without consent, as the first of two patches",
		"a limit of a NodePool with a record but without consent, as the second of two patches"),
		edits: []edit{{admissionRows, "|| variables.fields.exists(f, f in variables.consent)\"", "|| true\""}}},
	{what: "the consent for each field", rows: of(inAdmission, "a limit where the owner permits the weight"),
		edits: []edit{{admissionRows, "|| '{{ . }}' in variables.consent\"", "|| true\""}}},
	{what: "the annotations of a NodePool", rows: of(inAdmission, "consent that gpuscaler gives itself"),
		edits: []edit{{admissionRows, "variables.after.all(k, k in variables.ours ||", "variables.after.all(k, true ||"}}},
	{what: "the fields of a NodePool", rows: of(inAdmission, "a NodePool's template"),
		edits: []edit{{admissionRows, "variables.specAfter.all(k, k in variables.fields ||", "variables.specAfter.all(k, true ||"}}},
	{what: "the owners of a NodePool", rows: of(inAdmission, "a NodePool's ownerReferences, so that garbage collection deletes it"),
		edits: []edit{{admissionRows, " && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences\"\n    message: " +
			"gpuscaler may not change a NodePool's",
			"\"\n    message: gpuscaler may not change a NodePool's"}}},
	{what: "the operations on NodePools", rows: of(inAdmission, "a NodePool's status", "the deletion of a NodePool"),
		edits: []edit{{admissionRows, "\"request.operation == 'UPDATE' && request.?subResource.orValue('') == ''\"\n    message: " +
			"gpuscaler may not create or delete NodePools",
			"\"true\"\n    message: gpuscaler may not create or delete NodePools"}}},
	{what: "the namespaces of /scale", rows: of(inAdmission, "a first replica in a namespace that the chart does not list"),
		edits: []edit{{admissionRows, "\"request.namespace in {{", "\"true || request.namespace in {{"}}},
	{what: "the replicas of /scale", rows: of(inAdmission, "500 replicas through /scale", "ten replicas to none through /scale"),
		edits: []edit{{admissionRows, "request.operation == 'UPDATE' && (variables.from == 0 && variables.to == 1 || variables.from == 1 " +
			"&& variables.to == 0)", "true"}}},
	{what: "the owners of a ScaledObject", rows: of(inAdmission, "a ScaledObject's ownerReferences, so that garbage collection deletes it"),
		edits: []edit{{admissionRows, " && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences\"\n    message: " +
			"gpuscaler may not change a ScaledObject's",
			"\"\n    message: gpuscaler may not change a ScaledObject's"}}},
	{what: "the spec of a ScaledObject", rows: of(inAdmission, "a ScaledObject's maxReplicaCount"),
		edits: []edit{{admissionRows, "dyn(object).?spec == dyn(oldObject).?spec && dyn(object).?status", "dyn(object).?status"}}},
	{what: "the consent of a ScaledObject's owner", rows: of(inAdmission, "an annotation of KEDA without consent"),
		edits: []edit{{admissionRows, "variables.words.exists(k, variables.words[k] in variables.consent) ||", "true ||"}}},
	{what: "the annotations of a ScaledObject", rows: of(inAdmission, "KEDA's annotation paused-replicas"),
		edits: []edit{{admissionRows, "variables.after.all(k, variables.before[?k] == optional.of(variables.after[k]) ||\n      k in " +
			"variables.words",
			"variables.after.all(k, true ||\n      k in variables.words"}}},
	{what: "the operations on ScaledObjects", rows: of(inAdmission, "the deletion of a ScaledObject"),
		edits: []edit{{admissionRows, "\"request.operation == 'UPDATE' && request.?subResource.orValue('') == ''\"\n    message: " +
			"gpuscaler may not create or delete ScaledObjects",
			"\"true\"\n    message: gpuscaler may not create or delete ScaledObjects"}}},
	{what: "the namespaces of the status of policies", rows: of(inAdmission,
		"the status of a policy in a namespace that the chart does not list"),
		edits: []edit{{admissionRows, "\"variables.listed.exists(", "\"true || variables.listed.exists("}}},
	{what: "the content of objects with policies", rows: of(inAdmission, "an HPA's maxReplicas", "a policy in a team's ConfigMap"),
		edits: []edit{{admissionRows, "['spec', 'status', 'data', 'binaryData', 'immutable'].all(f, ", "['immutable'].all(f, "}}},
	{what: "the annotations of objects with policies", rows: of(inAdmission, "a policy in the annotations of an HPA"),
		edits: []edit{{admissionRows, "variables.after.all(k, k == 'gpuscaler.io/policy-status' ||", "variables.after.all(k, true ||"}}},
	{what: "the operations on objects with policies", rows: of(inAdmission, "the deletion of a team's ConfigMap"),
		edits: []edit{{admissionRows, "\"request.operation == 'UPDATE' && request.?subResource.orValue('') == ''\"\n    message: " +
			"gpuscaler may not create or delete HPAs",
			"\"true\"\n    message: gpuscaler may not create or delete HPAs"}}},
	{what: "the spec of a pod", rows: of(inAdmission, "another image for a pod"),
		edits: []edit{{admissionRows, "object.spec == oldObject.spec && object.metadata.?finalizers", "object.metadata.?finalizers"}}},
	{what: "the labels of a pod", rows: of(inAdmission, "a label of a pod, so that a Service selects it"),
		edits: []edit{{admissionRows, "variables.labelsAfter.all(k, k == 'gpuscaler.io/leader' && request.namespace == '{{ " +
			".Release.Namespace }}' ||",
			"variables.labelsAfter.all(k, k != 'gpuscaler.io/leader' ||"}}},
	{what: "the namespace of the leader label", rows: of(inAdmission,
		"the leader label on a tenant's pod, so that gpuscaler's Service selects it"),
		edits: []edit{{admissionRows, "variables.labelsAfter.all(k, k == 'gpuscaler.io/leader' && request.namespace == '{{ " +
			".Release.Namespace }}'",
			"variables.labelsAfter.all(k, k == 'gpuscaler.io/leader'"}}},
	{what: "the operations on pods", rows: of(inAdmission, "the deletion of a pod"),
		edits: []edit{{admissionRows, "\"request.operation == 'UPDATE'\"\n    message: gpuscaler may not create or delete pods",
			"\"true\"\n    message: gpuscaler may not create or delete pods"}}},
}
