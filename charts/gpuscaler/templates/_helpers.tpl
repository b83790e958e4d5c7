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

{{- /* Secret of the external metrics API's certificate; empty: self-signed in memory. */ -}}
{{- define "gpuscaler.servingSecret" -}}
{{- if eq .Values.certificates.source "secret" }}{{ required "certificates.secretName: the name of a kubernetes.io/tls Secret, since certificates.source is secret" .Values.certificates.secretName }}
{{- else if eq .Values.certificates.source "cert-manager" }}{{ include "gpuscaler.fullname" . }}-serving
{{- end }}
{{- end }}

{{- /* Secret of the KEDA scaler's certificate; empty: plain text. */ -}}
{{- define "gpuscaler.scalerSecret" -}}
{{- if .Values.keda.tls.secretName }}{{ .Values.keda.tls.secretName }}
{{- else if eq .Values.certificates.source "cert-manager" }}{{ include "gpuscaler.fullname" . }}-scaler
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
{{- $profiles := dict "dcgm" 9400 "vllm" 8000 "sglang" 30000 "triton" 8002 "nim" 8000 "ray" 8080 "tgi" 80 }}
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
