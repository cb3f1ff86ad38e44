{{- define "common.deployment" -}}
---
apiVersion: apps/v1
kind: Deployment
{{ include "common.metadata" . }}
spec:
  {{- /* Where an autoscaler decides, an upgrade must not. */}}
  {{- if not (default dict .values.autoscaling).enabled }}
  replicas: {{ int .values.replicas }}
  {{- end }}
  revisionHistoryLimit: 5
  minReadySeconds: 3
  # One more first, then one less: an upgrade never takes away what serves.
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  selector:
    matchLabels:
      {{- include "common.selector" . | nindent 6 }}
  template:
    {{- include "common.pod" . | nindent 4 }}
{{- end }}

{{- /* One pod: its store is its own, and nobody else's. */}}
{{- define "common.statefulset" -}}
---
apiVersion: apps/v1
kind: StatefulSet
{{ include "common.metadata" . }}
spec:
  replicas: 1
  serviceName: {{ .name }}
  revisionHistoryLimit: 5
  selector:
    matchLabels:
      {{- include "common.selector" . | nindent 6 }}
  # Data outlives the release.
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain, whenScaled: Retain}
  template:
    {{- include "common.pod" . | nindent 4 }}
  volumeClaimTemplates:
    - metadata:
        name: data
        labels:
          {{- include "common.selector" . | nindent 10 }}
      spec:
        accessModes: [ReadWriteOnce]
        {{- with .root.Values.volume.storageClassName }}
        storageClassName: {{ . }}
        {{- end }}
        resources: {requests: {storage: {{ .root.Values.volume.size }}}}
{{- end }}

{{- define "common.job" -}}
---
apiVersion: batch/v1
kind: Job
{{ include "common.metadata" . }}
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-weight: {{ .part.weight | default 0 | toString | quote }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  backoffLimit: 6
  activeDeadlineSeconds: {{ .values.deadlineSeconds }}
  # Of one that succeeds Helm takes care. One that fails stays for a day, to be looked at.
  ttlSecondsAfterFinished: 86400
  template:
    {{- include "common.pod" . | nindent 4 }}
{{- end }}

{{- define "common.cronjob" -}}
---
apiVersion: batch/v1
kind: CronJob
{{ include "common.metadata" . }}
spec:
  schedule: {{ .values.schedule | quote }}
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 60
  successfulJobsHistoryLimit: 1
  failedJobsHistoryLimit: 3
  jobTemplate:
    spec:
      backoffLimit: 1
      activeDeadlineSeconds: {{ .values.deadlineSeconds }}
      template:
        {{- include "common.pod" . | nindent 8 }}
{{- end }}
