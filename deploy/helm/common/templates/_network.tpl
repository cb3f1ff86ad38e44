{{- define "common.service" -}}
---
apiVersion: v1
kind: Service
{{ include "common.metadata" . }}
spec:
  type: {{ ternary .root.Values.service.type "ClusterIP" (hasKey .part "entry") }}
  selector:
    {{- include "common.selector" . | nindent 4 }}
  ports:
    - {name: http, port: {{ int (or .part.listens .part.opens) }}, targetPort: http}
{{- end }}

{{- define "common.ingress" -}}
{{- $root := .root -}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
{{ include "common.metadata" (dict "root" .root "part" (dict "name" "ingress") "name" (include "common.fullname" .root)) }}
  {{- with .root.Values.ingress.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with .root.Values.ingress.className }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with .root.Values.ingress.tlsSecret }}
  tls:
    - secretName: {{ . }}
      {{- with $root.Values.ingress.host }}
      hosts: [{{ . | quote }}]
      {{- end }}
  {{- end }}
  rules:
    - {{- with .root.Values.ingress.host }}
      host: {{ . | quote }}
      {{- end }}
      http:
        paths:
          {{- range $part := .parts }}
          {{- range $part.entry }}
          - path: {{ .path }}
            pathType: {{ default "Prefix" .type }}
            backend: {service: {name: {{ include "common.fullname" $root }}-{{ $part.name }}, port: {name: http}}}
          {{- end }}
          {{- end }}
{{- end }}

{{/* Nothing comes in and nothing goes out but what is named here. */}}
{{- define "common.networkpolicy" -}}
{{- $root := .root -}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
{{ include "common.metadata" . }}
{{- if eq .part.kind "Job" }}
  annotations:
    # Before the Jobs, whose weights are above this one; hooks are deleted when all of them have succeeded.
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-weight: "-1"
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
spec:
  podSelector:
    matchLabels:
      {{- include "common.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    {{- if hasKey .part "entry" }}
    - ports: [{port: http}]
      {{- with $root.Values.networkPolicy.clients }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
    {{- with .part.from }}
    - ports: [{port: http}]
      from:
        {{- range . }}
        - podSelector:
            matchLabels:
              {{- include "common.selector" (dict "root" $root "part" (dict "name" .)) | nindent 14 }}
        {{- end }}
    {{- end }}
    {{- if not (or (eq .part.kind "Job") (eq .part.kind "CronJob")) }}
    {{- with $root.Values.networkPolicy.monitoring }}
    - ports: [{port: admin}]
      from:
        {{- toYaml . | nindent 8 }}
    {{- end }}
    {{- end }}
  egress:
    - ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
    {{- range .part.to }}
    - ports: [{port: {{ int .port }}}]
      {{- if .part }}
      to:
        - podSelector:
            matchLabels:
              {{- include "common.selector" (dict "root" $root "part" (dict "name" .part)) | nindent 14 }}
      {{- else if .peers }}
      to:
        {{- toYaml .peers | nindent 8 }}
      {{- end }}
    {{- end }}
    {{- with $root.Values.networkPolicy.egress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
