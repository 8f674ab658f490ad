{{/* How Pods of models ask for cards, as a controller is told. */}}
{{- define "modeldock.gpuArgs" -}}
{{- if eq .Values.gpu.path "devicePlugin" -}}
- --gpu=device-plugin
- --gpu-scheduler={{ .Values.gpu.schedulerName }}
- --gpu-chunk-mib={{ .Values.gpu.chunkMiB | int64 }}
- --buffer-image={{ .Values.gpu.bufferImage }}
- --buffer-priority-class={{ include "modeldock.bufferPriority" . }}
{{- else -}}
- --gpu=dra
{{- end }}
{{- if .Values.redis.secretName }}
- --redis-url-file=/etc/modeldock/redis/url
{{- end }}
{{- end }}

{{/* PriorityClass of Pods that keep room for warm pools. */}}
{{- define "modeldock.bufferPriority" -}}
{{ .Release.Namespace }}-{{ include "modeldock.name" . }}-buffer
{{- end }}

{{/* Whether a controller reads what is measured of cards. */}}
{{- define "modeldock.gpuMeasured" -}}
{{- if and (ne .Values.gpu.path "none") .Values.redis.secretName }}true{{ end }}
{{- end }}

{{/* ourNames: dict "root" $ "text" …: the names of this release, and its size of chunks, in a manifest that is a plain file. */}}
{{- define "modeldock.gpuNames" -}}
{{- $name := include "modeldock.name" .root }}
{{- $wide := printf "%s-%s" .root.Release.Namespace $name }}
{{- .text
  | replace "system:serviceaccount:modeldock-system:modeldock-scheduler" (printf "system:serviceaccount:%s:%s" .root.Release.Namespace "\u0000scheduler")
  | replace "resourceName: modeldock-scheduler" "resourceName: \u0000scheduler"
  | replace "resourceNamespace: modeldock-system" (printf "resourceNamespace: %s" .root.Release.Namespace)
  | replace "name: gpuMemoryChunkMiB\n      expression: \"256\"" (printf "name: gpuMemoryChunkMiB\n      expression: \"%d\"" (.root.Values.gpu.chunkMiB | int64))
  | replace "modeldock-scheduler" .root.Values.gpu.schedulerName
  | replace "modeldock-gpu-" (printf "%s-gpu-" $wide)
  | replace "\u0000scheduler" (printf "%s-scheduler" $name) }}
{{- end }}

{{/* imageOf: dict "root" $ "image" …; what it leaves out is as for the other Pods. */}}
{{- define "modeldock.gpuImage" -}}
{{- if .image.digest }}{{ .image.repository }}@{{ .image.digest }}{{ else }}{{ .image.repository }}:{{ .image.tag | default .root.Values.image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}
