{{- define "common.image" -}}
{{- $i := .Values.image -}}
{{- if $i.digest -}}
{{ printf "%s@%s" $i.repository $i.digest }}
{{- else -}}
{{ printf "%s:%s" $i.repository (default .Chart.AppVersion $i.tag) }}
{{- end -}}
{{- end }}

{{/* A pod's labels and specification, below "template:". */}}
{{- define "common.pod" -}}
{{- $v := .values -}}
{{- $batch := or (eq .part.kind "Job") (eq .part.kind "CronJob") -}}
metadata:
  labels:
    {{- include "common.selector" . | nindent 4 }}
    app.kubernetes.io/part-of: loadstone
  annotations:
    {{- if not $batch }}
    prometheus.io/scrape: "true"
    prometheus.io/port: "9090"
    {{- end }}
    kubectl.kubernetes.io/default-container: {{ .part.name }}
    {{- with $v.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  # The program asks the API server nothing.
  automountServiceAccountToken: false
  {{- with .root.Values.serviceAccountName }}
  serviceAccountName: {{ . }}
  {{- end }}
  # Variables that name services would be read as the program's own: RESULTS_PORT.
  enableServiceLinks: false
  {{- with .root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- if $batch }}
  restartPolicy: OnFailure
  {{- else }}
  # Before SIGTERM, until SIGTERM has done its work, and two seconds beside.
  terminationGracePeriodSeconds: {{ add (int (default 0 .part.leaves)) (int (default 0 .part.drain)) 8 2 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- if eq .part.kind "Deployment" }}
  # During an upgrade the new pods are spread among themselves.
  topologySpreadConstraints:
    - topologyKey: kubernetes.io/hostname
      maxSkew: 1
      whenUnsatisfiable: {{ .root.Values.spread }}
      matchLabelKeys: [pod-template-hash]
      labelSelector:
        matchLabels:
          {{- include "common.selector" . | nindent 10 }}
  {{- end }}
  {{- range $key := list "nodeSelector" "tolerations" }}
  {{- with get $v $key }}
  {{ $key }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- if $v.affinity }}
  affinity:
    {{- toYaml $v.affinity | nindent 4 }}
  {{- else if eq .part.kind "Deployment" }}
  # Not another constraint: that would take all nodes without a zone out of the one above.
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 50
          podAffinityTerm:
            topologyKey: topology.kubernetes.io/zone
            labelSelector:
              matchLabels:
                {{- include "common.selector" . | nindent 16 }}
  {{- end }}
  {{- with $v.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .part.init }}
  initContainers:
    {{- range . }}
    - {{- include "common.container" (merge (dict "container" . "main" false "probes" false) $) | nindent 6 }}
    {{- end }}
  {{- end }}
  containers:
    - {{- include "common.container" (merge (dict "container" (dict "name" .part.name "args" .part.args) "main" true "probes" (not $batch)) .) | nindent 6 }}
  {{- include "common.volumes" . | nindent 2 }}
{{- end }}

{{- define "common.container" -}}
{{- $part := .part -}}
{{- $v := .values -}}
name: {{ .container.name }}
image: {{ include "common.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args:
  {{- toYaml .container.args | nindent 2 }}
{{- $own := dict }}
{{- $prefix := .root.Chart.Name | upper }}
{{- if .probes }}
{{- $_ := set $own (printf "%s_ADMIN_LISTEN" $prefix) "0.0.0.0:9090" }}
{{- with or $part.listens $part.opens }}{{ $_ := set $own (printf "%s_LISTEN" $prefix) (printf "0.0.0.0:%d" (int .)) }}{{ end }}
{{- if hasKey $part "drain" }}{{ $_ := set $own (printf "%s_DRAIN" $prefix) (printf "%ds" (int $part.drain)) }}{{ end }}
{{- end }}
{{- if .main }}
{{- /* What the values say is last, and counts; what is empty is not set. */}}
{{- range $name, $value := mergeOverwrite (deepCopy (default dict $part.env)) (deepCopy (default dict $v.env)) }}
{{- /* Helm reads 268435456 as 2.68435456e+08. */}}
{{- if and (kindIs "float64" $value) (eq (floor $value) $value) }}{{ $value = int64 $value }}{{ end }}
{{- if ne (toString $value) "" }}{{ $_ := set $own $name (toString $value) }}{{ else }}{{ $_ := unset $own $name }}{{ end }}
{{- end }}
{{- end }}
{{- if $own }}
env:
  {{- range $name, $value := $own }}
  - {name: {{ $name }}, value: {{ $value | quote }}}
  {{- end }}
  {{- if and .probes .root.Values.adminToken }}
  - name: {{ $prefix }}_ADMIN_TOKEN
    valueFrom: {secretKeyRef: {name: {{ required "adminToken: name the Secret, in existingSecret" .root.Values.existingSecret }}, key: {{ .root.Values.adminToken }}}}
  {{- end }}
{{- end }}
{{- if .probes }}
ports:
  {{- with or $part.listens $part.opens }}
  - {name: http, containerPort: {{ int . }}}
  {{- end }}
  - {name: admin, containerPort: 9090}
{{- $port := "admin" }}{{ if $part.listens }}{{ $port = "http" }}{{ end }}
{{- $paths := default dict $part.probes }}
# A minute to start in; after that only one that does not answer at all for half a minute is started again. One
# that answers "not ready" is left alone: its store may be away, which a new one does not bring back.
startupProbe:
  httpGet: {path: {{ default "/healthz" $paths.live }}, port: {{ $port }}}
  periodSeconds: 1
  timeoutSeconds: 3
  failureThreshold: {{ .root.Values.startSeconds }}
livenessProbe:
  httpGet: {path: {{ default "/healthz" $paths.live }}, port: {{ $port }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: {{ default "/readyz" $paths.ready }}, port: {{ $port }}}
  periodSeconds: 3
  timeoutSeconds: 3
  failureThreshold: 2
{{- with $part.leaves }}
lifecycle:
  preStop: {sleep: {seconds: {{ int . }}}}
{{- end }}
{{- end }}
resources:
  {{- toYaml (default $v.resources .container.resources) | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  {{- /* Also what needs no disk has this directory in its image, as a volume; and SQLite sorts in files. */}}
  - {name: tmp, mountPath: /tmp}
  - {name: data, mountPath: /data}
  {{- if concat (default list $part.files) (default list $v.files) }}
  - {name: secrets, mountPath: /secrets/service, readOnly: true}
  {{- end }}
  {{- with $part.input }}
  - {name: input, mountPath: /input, readOnly: true}
  {{- end }}
{{- end }}

{{- define "common.volumes" -}}
volumes:
  - name: tmp
    emptyDir: {sizeLimit: {{ .values.tmpSize | default "64Mi" }}}
  {{- if ne .part.kind "StatefulSet" }}
  - name: data
    emptyDir: {sizeLimit: 16Mi}
  {{- end }}
  {{- $files := concat (default list .part.files) (default list .values.files) | uniq }}
  {{- if $files }}
  {{- $name := required "existingSecret: name the Secret with the passwords; README.md says how to make it" (default .root.Values.existingSecret .part.secret) }}
  # A pod has the files that it needs, and no others.
  - name: secrets
    projected:
      defaultMode: 0440
      sources:
        - secret:
            name: {{ $name }}
            items:
              {{- range $files }}
              - {key: {{ . }}, path: {{ . }}}
              {{- end }}
  {{- end }}
  {{- with .part.input }}
  - name: input
    persistentVolumeClaim: {claimName: {{ . }}, readOnly: true}
  {{- end }}
{{- end }}
