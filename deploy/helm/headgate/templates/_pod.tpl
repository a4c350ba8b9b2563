{{/* The variables of the gateway: those of the mode and of other values, then env. */}}
{{- define "headgate.env" -}}
{{- $mode := include "headgate.mode" . -}}
{{- $env := dict -}}
{{- if eq $mode "volume" -}}
{{- $_ := set $env "HEADGATE_WORKERS" "2" -}}
{{- else if eq $mode "bucket" -}}
{{- $_ := set $env "HEADGATE_BUCKET" .Values.bucket.url -}}
{{- $_ := set $env "HEADGATE_DURABLE" .Values.bucket.durable -}}
{{- $_ := set $env "HEADGATE_STANDBY" (.Values.bucket.standby | toString) -}}
{{- $port := ternary "" (printf ":%v" .Values.service.port) (eq (int .Values.service.port) 80) -}}
{{- $_ := set $env "HEADGATE_ADDRESS" (printf "http://%s%s" (include "headgate.name" .) $port) -}}
{{- else -}}
{{- $_ := set $env "HEADGATE_BACKEND" .Values.backend.url -}}
{{- $_ := set $env "HEADGATE_REDIS_DURABILITY" .Values.backend.durability -}}
{{- end -}}
{{- if .Values.keysSecret -}}
{{- $_ := set $env "HEADGATE_KEYS_FILE" "/keys/keys.json" -}}
{{- $_ := set $env "HEADGATE_FIRST_KEY" "false" -}}
{{- end -}}
{{- if .Values.redisPort -}}
{{- $_ := set $env "HEADGATE_REDIS_PORT" (.Values.redisPort | toString) -}}
{{- end -}}
{{- if .Values.metrics.open -}}
{{- $_ := set $env "HEADGATE_OPEN_METRICS" "true" -}}
{{- end -}}
{{- range $name, $value := mergeOverwrite $env .Values.env }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end -}}
{{- end -}}

{{/* The template of a pod. */}}
{{- define "headgate.pod" -}}
{{- $mode := include "headgate.mode" . -}}
metadata:
  labels:
    {{- include "headgate.selector" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if or .Values.podAnnotations .Values.metrics.annotations }}
  annotations:
    {{- if .Values.metrics.annotations }}
    prometheus.io/scrape: "true"
    prometheus.io/port: "8080"
    prometheus.io/path: /metrics
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
spec:
  # Kubernetes would add HEADGATE_PORT and others for the service of this name.
  enableServiceLinks: false
  automountServiceAccountToken: false
  {{- with .Values.serviceAccountName }}
  serviceAccountName: {{ . }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile: {type: RuntimeDefault}
  {{- if or (eq $mode "backend") (and (eq $mode "bucket") .Values.bucket.standby) }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      # On one node, a leader and its standby would be lost together.
      whenUnsatisfiable: {{ ternary "DoNotSchedule" "ScheduleAnyway" (eq $mode "bucket") }}
      labelSelector:
        matchLabels:
          {{- include "headgate.selector" . | nindent 10 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  # A gateway with its own engine ends its workers and writes its journal: 58 s. Over servers, it gets no new
  # requests for 5 s, and closes open connections within 5 s.
  terminationGracePeriodSeconds: {{ ternary 30 60 (eq $mode "backend") }}
  containers:
    - name: headgate
      image: {{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) | quote }}
      {{- with .Values.image.pullPolicy }}
      imagePullPolicy: {{ . }}
      {{- end }}
      ports:
        - {name: http, containerPort: 8080}
        {{- with .Values.redisPort }}
        - {name: redis, containerPort: {{ . }}}
        {{- end }}
      env:
        {{- include "headgate.env" . | trim | nindent 8 }}
      {{- with .Values.envSecret }}
      envFrom:
        - secretRef: {name: {{ . }}}
      {{- end }}
      # A gateway with its own engine loads its journal first: ten minutes until it counts as failed.
      startupProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 1
        failureThreshold: {{ ternary 60 600 (eq $mode "backend") }}
      livenessProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 10
        timeoutSeconds: 3
      # A standby answers 503. Requests must reach it soon after it leads.
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: {{ ternary 1 5 (eq $mode "bucket") }}
        timeoutSeconds: 3
        {{- if eq $mode "bucket" }}
        failureThreshold: 2
        {{- end }}
      {{- if eq $mode "backend" }}
      lifecycle:
        preStop:
          exec: {command: [sleep, "5"]}
      {{- end }}
      resources:
        {{- if .Values.resources }}
        {{- toYaml .Values.resources | nindent 8 }}
        {{- else if eq $mode "backend" }}
        requests: {cpu: 500m, memory: 256Mi}
        limits: {memory: 1Gi}
        {{- else }}
        requests: {cpu: "1", memory: 1Gi}
        limits: {memory: 2Gi}
        {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        {{- if .Values.keysSecret }}
        - {name: keys, mountPath: /keys, readOnly: true}
        {{- end }}
        - {name: data, mountPath: /data}
        - {name: tmp, mountPath: /tmp}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    {{- with .Values.keysSecret }}
    # As a folder, and not with subPath, which is never updated.
    - name: keys
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- if ne $mode "volume" }}
    - name: data
      emptyDir: {sizeLimit: {{ ternary .Values.bucket.diskSize "3Gi" (eq $mode "bucket") }}}
    {{- end }}
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
