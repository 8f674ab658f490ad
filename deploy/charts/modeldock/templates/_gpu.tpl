{{/* How Pods of models ask for cards. */}}
{{- define "modeldock.gpuArgs" -}}
- --gpu={{ if eq .Values.gpu.path "devicePlugin" }}device-plugin{{ else }}dra{{ end }}
{{- end }}
