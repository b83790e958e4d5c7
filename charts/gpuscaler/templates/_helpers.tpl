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

{{- /* "true" if gpuscaler works with KEDA; otherwise empty. */ -}}
{{- define "gpuscaler.keda" -}}
{{- if or (has .Values.mode (list "keda" "all")) (and (eq .Values.mode "auto") (.Capabilities.APIVersions.Has "keda.sh/v1alpha1")) }}true{{ end -}}
{{- end }}

{{- /* "true" if gpuscaler works with Karpenter; otherwise empty. */ -}}
{{- define "gpuscaler.karpenter" -}}
{{- if or (has .Values.mode (list "karpenter" "all")) (and (eq .Values.mode "auto") (.Capabilities.APIVersions.Has "karpenter.sh/v1")) }}true{{ end -}}
{{- end }}

{{- /* "true" if gpuscaler reads the Nodes of capacity groups with a nodeSelector; otherwise empty. */ -}}
{{- define "gpuscaler.readNodes" -}}
{{- $selects := false }}
{{- range .Values.platform.capacityGroups }}{{ if .nodeSelector }}{{ $selects = true }}{{ end }}{{ end }}
{{- if or (include "gpuscaler.karpenter" .) (eq (toString .Values.readNodes) "true") (and (eq (toString .Values.readNodes) "auto") $selects) }}true{{ end -}}
{{- end }}

{{- /* Name of the Secret with the certificate of the external metrics API; empty: the certificate is self-signed, in memory. */ -}}
{{- define "gpuscaler.servingSecret" -}}
{{- if eq .Values.certificates.source "secret" }}{{ required "certificates.secretName: the name of a kubernetes.io/tls Secret, since certificates.source is secret" .Values.certificates.secretName }}
{{- else if eq .Values.certificates.source "cert-manager" }}{{ include "gpuscaler.fullname" . }}-serving
{{- end }}
{{- end }}

{{- /* Name of the Secret with the certificate of the external scaler; empty: no TLS. */ -}}
{{- define "gpuscaler.scalerSecret" -}}
{{- if .Values.keda.tls.enabled }}{{ .Values.keda.tls.secretName | default (printf "%s-scaler" (include "gpuscaler.fullname" .)) }}{{ end }}
{{- end }}

{{- /* "true" if the release issues the certificates of the external scaler and of KEDA, its client; otherwise empty. */ -}}
{{- define "gpuscaler.scalerIssued" -}}
{{- if and (include "gpuscaler.keda" .) .Values.keda.tls.enabled (not .Values.keda.tls.secretName) }}true{{ end -}}
{{- end }}

{{- /* DNS name in the client certificate that the release issues for KEDA, and name of the Secret with this certificate. */ -}}
{{- define "gpuscaler.scalerClient" -}}
{{ include "gpuscaler.fullname" . }}-scaler-client
{{- end }}

{{- /* DNS names, one of which KEDA's client certificate must contain, as a JSON list; empty: no client certificate is required. */ -}}
{{- define "gpuscaler.scalerClientNames" -}}
{{- $names := .Values.keda.tls.clientNames }}
{{- if include "gpuscaler.scalerIssued" . }}{{ $names = append $names (include "gpuscaler.scalerClient" .) }}{{ end }}
{{- $names | toJson }}
{{- end }}

{{- /* Name of the Secret with the certificate of /metrics; empty: no TLS. */ -}}
{{- define "gpuscaler.metricsSecret" -}}
{{- if .Values.metrics.tls.secretName }}{{ .Values.metrics.tls.secretName }}
{{- else if .Values.metrics.authorization.enabled }}{{ include "gpuscaler.fullname" . }}-metrics
{{- end }}
{{- end }}

{{- /* "true" if the release issues the certificate of /metrics; otherwise empty. */ -}}
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

{{- /* Name of the Secret with the certificate of the page for tenants. It is required, because clients send bearer tokens. */ -}}
{{- define "gpuscaler.pageSecret" -}}
{{- if .Values.page.tenants.secretName }}{{ .Values.page.tenants.secretName }}
{{- else if eq .Values.certificates.source "cert-manager" }}{{ include "gpuscaler.fullname" . }}-page
{{- else }}{{ fail "page.tenants needs a certificate: name its Secret in page.tenants.secretName, or set certificates.source to cert-manager" }}
{{- end }}
{{- end }}

{{- /* Kind of the monitor to create: ServiceMonitor, PodMonitor or none. */ -}}
{{- define "gpuscaler.monitor" -}}
{{- if ne .Values.metrics.monitor "auto" }}{{ .Values.metrics.monitor }}
{{- else if .Capabilities.APIVersions.Has "monitoring.coreos.com/v1" }}ServiceMonitor
{{- else }}none
{{- end }}
{{- end }}

{{- /* Ports of the data sources in platform.dataSources, as a JSON list without duplicates. */ -}}
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
