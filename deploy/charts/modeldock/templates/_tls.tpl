{{/* TLS of one process's public listener: dict "root" $ "process" "gateway".
The Secret is of type kubernetes.io/tls; a new one is used without a restart. */}}
{{- define "modeldock.tlsArgs" -}}
{{- if (index .root.Values .process).tls.secretName -}}
- --tls-cert=/etc/modeldock/tls/tls.crt
- --tls-key=/etc/modeldock/tls/tls.key
{{- end }}
{{- end }}

{{- define "modeldock.tlsMount" -}}
{{- if (index .root.Values .process).tls.secretName -}}
- {name: tls, mountPath: /etc/modeldock/tls, readOnly: true}
{{- end }}
{{- end }}

{{- define "modeldock.tlsVolume" -}}
{{- with (index .root.Values .process).tls.secretName -}}
- name: tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]
{{- end }}
{{- end }}

{{/* Where controllers reach gateways for console users. */}}
{{- define "modeldock.gatewayURL" -}}
{{- $scheme := ternary "https" "http" (ne .Values.gateway.tls.secretName "") -}}
{{- .Values.controller.gatewayURL | default (printf "%s://%s-gateway.%s.svc:%d" $scheme (include "modeldock.name" .) .Release.Namespace (int .Values.gateway.service.port)) }}
{{- end }}
