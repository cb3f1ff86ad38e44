{{- define "results.parts" -}}
{{- $v := .Values -}}
{{- $fill := list "--students" (int64 $v.fill.students | toString) "--keep-imported" -}}
{{- with $v.fill.publishAt }}{{ $fill = concat $fill (list "--publish-at" .) }}{{ end -}}
{{- if $v.fill.file.claim }}{{ $fill = concat $fill (list "--csv" (printf "/input/%s" $v.fill.file.path)) }}{{ end -}}
{{- $serves := dict "RESULTS_ACCESS" $v.access "RESULTS_PROXY" (join "," $v.proxies) -}}
parts:
{{- if eq $v.mode "embedded" }}
  - name: api
    kind: StatefulSet
    init:
      - name: fill
        args: {{ concat (list "results" "seed" "--store" "sqlite:/data/results.db") $fill | toJson }}
        resources: {{ toJson $v.fill.resources }}
    args: [results, serve]
    env: {{ merge (dict "RESULTS_STORE" "sqlite:/data/results.db" "RESULTS_CACHE" "none") $serves | toJson }}
    input: {{ $v.fill.file.claim | quote }}
    listens: 8080
    drain: 5
    entry: [{path: /}]
{{- else }}
{{- $_ := required "mode external: name the database in postgres.host" $v.postgres.host -}}
{{- $stores := list (include "common.to" $v.postgres | fromJson) -}}
{{- $files := list "pgpass" -}}
{{- $reads := dict "RESULTS_STORE" (include "common.postgres" $v.postgres) "PGPASSFILE" "/secrets/service/pgpass" -}}
{{- if $v.redis.host }}
{{- $stores = append $stores (include "common.to" $v.redis | fromJson) }}
{{- $files = append $files "redis" }}
{{- $reads = merge (dict "RESULTS_REDIS" (include "common.redis" $v.redis) "RESULTS_REDIS_PASSWORD_FILE" "/secrets/service/redis") $reads }}
{{- end }}
  - name: api
    kind: Deployment
    args: [results, serve]
    env: {{ merge (dict "RESULTS_CACHE" (ternary "redis" "none" (ne $v.redis.host ""))) $serves $reads | toJson }}
    files: {{ toJson $files }}
    listens: 8080
    drain: 5
    entry: [{path: /}]
    to: {{ toJson $stores }}
{{- if $v.fill.enabled }}
  - name: fill
    kind: Job
    {{- $owned := merge (dict "user" $v.fill.user) $v.postgres }}
    args: {{ concat (list "results" "seed" "--store" (include "common.postgres" $owned)) $fill | toJson }}
    env: {PGPASSFILE: /secrets/service/pgpass}
    secret: {{ required "fill.existingSecret: name the Secret with the owner's pgpass; that of existingSecret may only read" $v.fill.existingSecret }}
    files: [pgpass]
    input: {{ $v.fill.file.claim | quote }}
    to: {{ list (include "common.to" $v.postgres | fromJson) | toJson }}
{{- end }}
{{- if and $v.preload.enabled $v.redis.host }}
  - name: preload
    kind: Job
    weight: 1 # after fill
    args: [results, preload]
    env: {{ toJson $reads }}
    files: {{ toJson $files }}
    to: {{ toJson $stores }}
{{- end }}
{{- end }}
{{- end }}
