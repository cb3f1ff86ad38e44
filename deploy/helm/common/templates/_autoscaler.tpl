{{/* What limits a part by Loadstone's verdict is CPU, in all systems; what else does, is a trigger of KEDA. */}}
{{- define "common.autoscaler" -}}
{{- $a := .values.autoscaling -}}
{{- if $a.keda.enabled }}
---
# KEDA makes the autoscaler; two for one Deployment would fight.
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
{{ include "common.metadata" . }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ .name }}}
  pollingInterval: 5
  minReplicaCount: {{ int $a.minReplicas }}
  maxReplicaCount: {{ int $a.maxReplicas }}
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        {{- include "common.behavior" $a | nindent 8 }}
  triggers:
    - type: cpu
      metricType: Utilization
      metadata: {value: {{ $a.cpuPercent | toString | quote }}}
    {{- range .part.triggers }}
    {{- if .type }}
    - {{- toYaml . | nindent 6 }}
    {{- else if $a.keda.prometheus }}
    - type: prometheus
      metadata:
        serverAddress: {{ $a.keda.prometheus | quote }}
        query: {{ .query | quote }}
        threshold: {{ .threshold | toString | quote }}
    {{- end }}
    {{- end }}
    {{- with $a.keda.triggers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- else }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
{{ include "common.metadata" . }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ .name }}}
  minReplicas: {{ int $a.minReplicas }}
  maxReplicas: {{ int $a.maxReplicas }}
  metrics:
    - type: Resource
      resource: {name: cpu, target: {type: Utilization, averageUtilization: {{ int $a.cpuPercent }}}}
  behavior:
    {{- include "common.behavior" $a | nindent 4 }}
{{- end }}
{{- end }}

{{/* The policy "quick" of system/feed/experiments/autoscale.yaml, with a wait of its own before there are fewer. */}}
{{- define "common.behavior" -}}
scaleUp:
  stabilizationWindowSeconds: 0
  policies: [{type: Pods, value: 2, periodSeconds: 10}]
scaleDown:
  stabilizationWindowSeconds: {{ int .downAfterSeconds }}
  policies: [{type: Pods, value: 1, periodSeconds: 10}]
{{- end }}

{{- define "common.disruption" -}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
{{ include "common.metadata" . }}
spec:
  maxUnavailable: 1
  # One that is not ready serves nobody, and keeps no node from being emptied.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "common.selector" . | nindent 6 }}
{{- end }}
