{{- define "gpuscaler.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride }}
{{- else if contains .Chart.Name .Release.Name }}{{ .Release.Name }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name }}
{{- end }}
{{- end }}

{{- define "gpuscaler.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "gpuscaler.fullname" .) }}
{{- end }}

{{- define "gpuscaler.selector" -}}
app.kubernetes.io/name: gpuscaler
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gpuscaler.labels" -}}
{{ include "gpuscaler.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "gpuscaler.image" -}}
{{- if not .Values.image.repository }}{{ fail "image.repository is not set: build an image as in \"Quick start\" of README.md, and add --set image.repository=REGISTRY/gpuscaler" }}{{ end -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* "true" where gpuscaler works with KEDA. */ -}}
{{- define "gpuscaler.keda" -}}
{{- if or (has .Values.mode (list "keda" "all")) (and (eq .Values.mode "auto") (.Capabilities.APIVersions.Has "keda.sh/v1alpha1")) }}true{{ end -}}
{{- end }}

{{- /* "true" where gpuscaler works with Karpenter. */ -}}
{{- define "gpuscaler.karpenter" -}}
{{- if or (has .Values.mode (list "karpenter" "all")) (and (eq .Values.mode "auto") (.Capabilities.APIVersions.Has "karpenter.sh/v1")) }}true{{ end -}}
{{- end }}

{{- /* "true" where gpuscaler reads the Nodes of capacity groups with a nodeSelector. */ -}}
{{- define "gpuscaler.readNodes" -}}
{{- $selects := false }}
{{- range .Values.platform.capacityGroups }}{{ if .nodeSelector }}{{ $selects = true }}{{ end }}{{ end }}
{{- if or (include "gpuscaler.karpenter" .) (eq (toString .Values.readNodes) "true") (and (eq (toString .Values.readNodes) "auto") $selects) }}true{{ end -}}
{{- end }}

{{- /* Secret of the external metrics API's certificate; empty: self-signed in memory. */ -}}
{{- define "gpuscaler.servingSecret" -}}
{{- if eq .Values.certificates.source "secret" }}{{ required "certificates.secretName: the name of a kubernetes.io/tls Secret, since certificates.source is secret" .Values.certificates.secretName }}
{{- else if eq .Values.certificates.source "cert-manager" }}{{ include "gpuscaler.fullname" . }}-serving
{{- end }}
{{- end }}

{{- /* Secret of the external scaler's certificate; empty: plain text. */ -}}
{{- define "gpuscaler.scalerSecret" -}}
{{- if .Values.keda.tls.enabled }}{{ .Values.keda.tls.secretName | default (printf "%s-scaler" (include "gpuscaler.fullname" .)) }}{{ end }}
{{- end }}

{{- /* "true" where the release issues the certificates of the external scaler and of KEDA, its client. */ -}}
{{- define "gpuscaler.scalerIssued" -}}
{{- if and (include "gpuscaler.keda" .) .Values.keda.tls.enabled (not .Values.keda.tls.secretName) }}true{{ end -}}
{{- end }}

{{- /* Name in the client certificate that the release issues for KEDA, and of its Secret. */ -}}
{{- define "gpuscaler.scalerClient" -}}
{{ include "gpuscaler.fullname" . }}-scaler-client
{{- end }}

{{- /* DNS names of which KEDA's certificate must carry one, as a JSON list; empty: the client shows no certificate. */ -}}
{{- define "gpuscaler.scalerClientNames" -}}
{{- $names := .Values.keda.tls.clientNames }}
{{- if include "gpuscaler.scalerIssued" . }}{{ $names = append $names (include "gpuscaler.scalerClient" .) }}{{ end }}
{{- $names | toJson }}
{{- end }}

{{- /* Secret of the certificate of /metrics; empty: plain text. */ -}}
{{- define "gpuscaler.metricsSecret" -}}
{{- if .Values.metrics.tls.secretName }}{{ .Values.metrics.tls.secretName }}
{{- else if .Values.metrics.authorization.enabled }}{{ include "gpuscaler.fullname" . }}-metrics
{{- end }}
{{- end }}

{{- /* "true" where the release issues that certificate. */ -}}
{{- define "gpuscaler.metricsIssued" -}}
{{- if and .Values.metrics.authorization.enabled (not .Values.metrics.tls.secretName) }}true{{ end -}}
{{- end }}

{{- /* The DNS names of a Service, as a JSON list: (list . "NAME"). */ -}}
{{- define "gpuscaler.serviceNames" -}}
{{- $namespace := (index . 0).Release.Namespace }}{{ $name := index . 1 }}
{{- list (printf "%s.%s.svc" $name $namespace) (printf "%s.%s" $name $namespace) (printf "%s.%s.svc.cluster.local" $name $namespace) | toJson }}
{{- end }}

{{- /* Nine tenths of the container's memory limit in bytes, for Go's garbage collector; empty: there is no limit. */ -}}
{{- define "gpuscaler.goMemoryLimit" -}}
{{- with (.Values.resources.limits | default dict).memory }}
{{- $quantity := kindIs "float64" . | ternary (int64 . | toString) (toString .) }}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?" $quantity }}
{{- $unit := trimPrefix $number $quantity }}
{{- $factors := dict "" 1 "k" 1000 "Ki" 1024 "M" 1000000 "Mi" 1048576 "G" 1000000000 "Gi" 1073741824 "T" 1000000000000 "Ti" 1099511627776 }}
{{- if or (not $number) (not (hasKey $factors $unit)) }}{{ fail (printf "resources.limits.memory: found %q; want a number with k, Ki, M, Mi, G, Gi, T, Ti or no unit" $quantity) }}{{ end }}
{{- mulf (float64 $number) (index $factors $unit | float64) 0.9 | int64 }}
{{- end }}
{{- end }}

{{- /* Secret of the tenants' page's certificate: bearer tokens are not shown to plain text. */ -}}
{{- define "gpuscaler.pageSecret" -}}
{{- if .Values.page.tenants.secretName }}{{ .Values.page.tenants.secretName }}
{{- else if eq .Values.certificates.source "cert-manager" }}{{ include "gpuscaler.fullname" . }}-page
{{- else }}{{ fail "page.tenants needs a certificate: name its Secret in page.tenants.secretName, or set certificates.source to cert-manager" }}
{{- end }}
{{- end }}

{{- /* ServiceMonitor, PodMonitor or none. */ -}}
{{- define "gpuscaler.monitor" -}}
{{- if ne .Values.metrics.monitor "auto" }}{{ .Values.metrics.monitor }}
{{- else if .Capabilities.APIVersions.Has "monitoring.coreos.com/v1" }}ServiceMonitor
{{- else }}none
{{- end }}
{{- end }}

{{- /* The ports that the platform's data sources listen on, as a JSON list without doubles. */ -}}
{{- define "gpuscaler.sourcePorts" -}}
{{- $profiles := dict "dcgm" 9400 "vllm" 8000 "sglang" 30000 "triton" 8002 "nim" 8000 "ray" 8080 "tgi" 80 "trtllm" 8000 "dynamo" 9090 }}
{{- $ports := list }}
{{- range .Values.platform.dataSources }}
{{- if eq .type "scrape" }}
{{- $ports = append $ports (.port | default (index $profiles (.profile | default "vllm")) | int) }}
{{- else if .address }}
{{- $port := regexFind ":[0-9]+(/|$)" .address | trimAll ":/" }}
{{- $ports = append $ports ($port | default (ternary "443" "80" (hasPrefix "https://" .address)) | int) }}
{{- end }}
{{- end }}
{{- $ports | uniq | sortAlpha | toJson }}
{{- end }}
