{{/*
common.objects makes all objects of a chart. The chart says what it is made of in a template CHART.parts, in
YAML. What is marked (o) is optional:

  parts:
  - name: api                the settings of a part are the values of this name
    settings: api            (o) or of this one
    kind: Deployment         or StatefulSet, one pod with a claim at /data; Job, which Helm runs before it
                             installs and upgrades, in the order of weight; CronJob
    args: [results, serve]   of the program
    init:                    (o) run before it, one after the other: {name, args}
    env: {NAME: value}       (o)
    files: [pgpass]          (o) of the Secret, at /secrets/service
    secret: NAME             (o) of the files, where it is not existingSecret
    listens: 8080            (o) port of readers, /healthz and /readyz; else they are at the admin port
    opens: 8080              (o) another port for other parts, without probes
    probes: {live, ready}    (o) other paths, and another port: {port: admin}
    leaves: 5                (o) seconds before SIGTERM, in which the Service sends no more
    drain: 5                 (o) seconds after SIGTERM in which answers go on
    input: NAME              (o) an existing claim, to read at /input
    entry: [{path: /}]       (o) what of the Ingress comes here
    from: [proxy]            (o) parts that may connect
    to: [{port: 5432}]       (o) what it connects to: a port, and peers, as NetworkPolicies name them; or a part
    triggers: [...]          (o) of KEDA, beside CPU: {query, threshold} of Prometheus, or {type, metadata}
*/}}
{{- define "common.objects" -}}
{{- $root := . -}}
{{- $said := include "common.parts" . | fromYaml -}}
{{- range $part := $said.parts }}
{{- $values := required (printf "the chart has no values for its part %s" $part.name) (get $root.Values (default $part.name $part.settings)) }}
{{- include "common.checkEnv" (dict "part" $part.name "env" $values.env) }}
{{- $p := dict "root" $root "part" $part "values" $values "name" (printf "%s-%s" (include "common.fullname" $root) $part.name) }}
{{- if eq $part.kind "Deployment" }}
{{ include "common.deployment" $p }}
{{- if (default dict $values.autoscaling).enabled }}
{{ include "common.autoscaler" $p }}
{{- end }}
{{- if or (default dict $values.autoscaling).enabled (gt (int $values.replicas) 1) }}
{{ include "common.disruption" $p }}
{{- end }}
{{- else if eq $part.kind "StatefulSet" }}
{{ include "common.statefulset" $p }}
{{- else if eq $part.kind "Job" }}
{{ include "common.job" $p }}
{{- else if eq $part.kind "CronJob" }}
{{ include "common.cronjob" $p }}
{{- end }}
{{- if or $part.listens $part.opens }}
{{ include "common.service" $p }}
{{- end }}
{{- if $root.Values.networkPolicy.enabled }}
{{ include "common.networkpolicy" $p }}
{{- end }}
{{- end }}
{{- if .Values.ingress.enabled }}
{{ include "common.ingress" (dict "root" . "parts" $said.parts) }}
{{- end }}
{{- end }}

{{- define "common.parts" -}}
{{- $text := include (printf "%s.parts" .Chart.Name) . -}}
{{- $said := fromYaml $text -}}
{{- if hasKey $said "Error" }}{{ fail (printf "the parts of %s: %s" .Chart.Name $said.Error) }}{{ end -}}
{{- $text -}}
{{- end }}

{{/* Names leave room for the longest part, and for the 11 characters that a CronJob's Jobs get. */}}
{{- define "common.fullname" -}}
{{- $name := .Release.Name -}}
{{- if not (contains .Chart.Name $name) }}{{ $name = printf "%s-%s" $name .Chart.Name }}{{ end -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "common.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part.name }}
{{- end }}

{{- define "common.metadata" -}}
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "common.selector" . | nindent 4 }}
    app.kubernetes.io/part-of: loadstone
    app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
    app.kubernetes.io/managed-by: {{ .root.Release.Service }}
    helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Values are kept with the release, for everybody who may read that: nothing secret belongs there. */}}
{{- define "common.checkEnv" -}}
{{- $part := .part -}}
{{- range $name, $_ := .env }}
{{- if regexMatch "(PASSWORD|TOKEN|SECRET|_KEY|KEYS|PGPASSFILE)$" $name }}
{{- fail (printf "%s.env.%s: values are kept in the clear; put it into the Secret that existingSecret names" $part $name) }}
{{- else if hasSuffix "_PUBLISH_AT" $name }}
{{- fail (printf "%s.env.%s: the store says when results are out, and servers refuse to be told; write fill.publishAt, or use `loadstone results embargo`" $part $name) }}
{{- else if regexMatch "_(LISTEN|DRAIN|STOP_TIMEOUT)$" $name }}
{{- fail (printf "%s.env.%s: the chart sets it, for ports, probes and the time to stop depend on it" $part $name) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The address of a PostgreSQL database, of values as definitions.json has them. */}}
{{- define "common.postgres" -}}
postgres://{{ .user }}@{{ .host }}:{{ int .port }}/{{ .database }}?sslmode={{ .sslmode }}
{{- end }}

{{- define "common.redis" -}}
redis://{{ with .user }}{{ . }}@{{ end }}{{ .host }}:{{ int .port }}
{{- end }}

{{/* Where a store is, for "to". */}}
{{- define "common.to" -}}
{{ dict "port" .port "peers" .peers | toJson }}
{{- end }}

{{/* The same of brokers, which have a port each. */}}
{{- define "common.brokers" -}}
{{- $peers := .peers -}}
{{- $to := list -}}
{{- range $port := (regexReplaceAll "[^,]*:" (join "," .brokers) "" | splitList "," | uniq) }}{{ $to = append $to (dict "port" (int $port) "peers" $peers) }}{{ end -}}
{{ toJson $to }}
{{- end }}
