{{/* The name of all resources: that of the release, if it contains the name of the chart. */}}
{{- define "headgate.name" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $name = ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) -}}
{{- end -}}
{{- $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "headgate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "headgate.labels" -}}
{{ include "headgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end -}}

{{/* Where the streams are: volume, bucket or backend. Refuses values that do not fit together. */}}
{{- define "headgate.mode" -}}
{{- $mode := "volume" -}}
{{- if and .Values.bucket.url .Values.backend.url -}}
{{- fail "set bucket.url or backend.url, not both" -}}
{{- else if .Values.bucket.url -}}
{{- $mode = "bucket" -}}
{{- else if .Values.backend.url -}}
{{- $mode = "backend" -}}
{{- end -}}
{{- if ne $mode "volume" -}}
{{- $_ := required "set keysSecret: a bucket or a backend needs a secret with keys.json" .Values.keysSecret -}}
{{- $_ := required "set envSecret: a bucket or a backend needs a secret with HEADGATE_TICKET_SECRET" .Values.envSecret -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (ne $mode "backend") -}}
{{- fail "autoscaling needs backend.url: only gateways over servers hold no streams" -}}
{{- end -}}
{{- $metrics := .Values.metrics -}}
{{- if and $metrics.annotations (not $metrics.open) -}}
{{- fail "metrics.annotations needs metrics.open: Prometheus sends no key to annotated pods" -}}
{{- end -}}
{{- if and $metrics.serviceMonitor.enabled (not $metrics.open) (not $metrics.serviceMonitor.keySecret.name) -}}
{{- fail "metrics.serviceMonitor needs metrics.open, or keySecret.name" -}}
{{- end -}}
{{- $mode -}}
{{- end -}}
