{{- define "feed.parts" -}}
{{- $v := .Values -}}
{{- $fill := list "--posts" (int64 $v.fill.posts | toString) "--keep-imported" -}}
{{- if $v.fill.file.claim }}{{ $fill = concat $fill (list "--file" (printf "/input/%s" $v.fill.file.path)) }}{{ end -}}
parts:
{{- if eq $v.mode "embedded" }}
  - name: api
    kind: StatefulSet
    init:
      - name: fill
        args: {{ concat (list "feed" "seed" "--store" "sqlite:/data/feed.db") $fill | toJson }}
        resources: {{ toJson $v.fill.resources }}
    args: [feed, serve]
    env: {FEED_STORE: "sqlite:/data/feed.db", FEED_SNAPSHOTS: "directory:/data/snapshots"}
    input: {{ $v.fill.file.claim | quote }}
    listens: 8080
    drain: 5
    entry: [{path: /}]
{{- else }}
{{- $_ := required "mode external: name the database in postgres.host" $v.postgres.host -}}
{{- $_ := required "mode external: name the store of snapshots in objects.host" $v.objects.host -}}
{{- $store := dict "FEED_STORE" (include "common.postgres" $v.postgres) "PGPASSFILE" "/secrets/service/pgpass" -}}
{{- $postgres := include "common.to" $v.postgres | fromJson -}}
{{- $o := $v.objects -}}
{{- $objects := printf "s3:%s://%s:%d/%s" (ternary "https" "http" $o.tls) $o.host (int $o.port) $o.bucket -}}
{{- $keys := dict "FEED_KEYS" "/secrets/service/keys" "AWS_REGION" $o.region -}}
{{- $edits := dict "FEED_PROXY" (join "," $v.proxies) -}}
{{- $files := list "pgpass" -}}
{{- if $v.editing.enabled -}}
{{- $edits = merge (dict "FEED_ACCOUNTS" "/secrets/service/accounts" "FEED_SESSION_KEY_FILE" "/secrets/service/session") $edits -}}
{{- $files = list "pgpass" "accounts" "session" -}}
{{- end }}
  - name: api
    kind: Deployment
    args: [feed, serve]
    env: {{ merge $edits $store | toJson }}
    files: {{ toJson $files }}
    listens: 8080
    drain: 5
    entry: [{path: /}, {path: /feed, type: Exact}]
    to: {{ list $postgres | toJson }}
  # As a CronJob it needs nothing between two publications, and what editors take down is published with the next.
  - &publisher
    name: publisher
    kind: CronJob
    args: [feed, publish, --once]
    env: {{ merge (dict "FEED_TO" $objects) $keys $store | toJson }}
    files: [pgpass, keys]
    to: {{ list $postgres (include "common.to" $o | fromJson) | toJson }}
  # The first time before there is an edge, which is ready once there is something to show.
  - <<: *publisher
    name: publish
    settings: publisher
    kind: Job
    weight: 1 # after fill
  # One is enough, and of several one may show a version that another shows no more.
  - name: edge
    kind: Deployment
    args: [feed, edge]
    env: {{ merge (dict "FEED_FROM" $objects) $keys | toJson }}
    files: [keys]
    listens: 8080
    drain: 5
    entry: [{path: /feed/}]
    to: {{ list (include "common.to" $o | fromJson) | toJson }}
{{- if $v.fill.enabled }}
  - name: fill
    kind: Job
    args: {{ concat (list "feed" "seed") $fill | toJson }}
    env: {{ toJson $store }}
    files: [pgpass]
    input: {{ $v.fill.file.claim | quote }}
    to: {{ list $postgres | toJson }}
{{- end }}
{{- end }}
{{- end }}
