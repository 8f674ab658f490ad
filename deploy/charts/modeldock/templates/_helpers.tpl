{{/* Names. What is not in a namespace carries the release's own. */}}
{{- define "modeldock.name" -}}
{{- if contains "modeldock" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-modeldock" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "modeldock.models" -}}
{{- .Values.models.namespace | default (printf "%s-models" .Release.Namespace) }}
{{- end }}

{{- define "modeldock.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "modeldock.labels" -}}
app.kubernetes.io/name: modeldock
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* selector: dict "root" $ "component" "gateway" */}}
{{- define "modeldock.selector" -}}
app.kubernetes.io/name: modeldock
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* What every Pod of ours is: no root, nothing to write on, no capability. */}}
{{- define "modeldock.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "modeldock.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "modeldock.env" -}}
{{- if .Values.kubernetes.host }}
env:
  - {name: KUBERNETES_SERVICE_HOST, value: {{ .Values.kubernetes.host | quote }}}
  - {name: KUBERNETES_SERVICE_PORT, value: {{ .Values.kubernetes.port | quote }}}
{{- end }}
{{- end }}

{{/* secretVolume: dict "name" "database" "secret" .Values.database "file" "dsn" */}}
{{- define "modeldock.secretVolume" -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secret.secretName }}
    defaultMode: 0440
    items: [{key: {{ .secret.secretKey }}, path: {{ .file }}}]
{{- end }}

{{/* spread: replicas of one component prefer different nodes. */}}
{{- define "modeldock.spread" -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "modeldock.selector" . | nindent 6 }}
{{- end }}

{{- define "modeldock.monitorLabels" -}}
{{- include "modeldock.labels" . }}
{{- with .Values.serviceMonitor.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}
