{{- define "menu.parts" -}}
{{- $v := .Values -}}
{{- $name := include "common.fullname" . -}}
{{- $fill := list "--menus" (int64 $v.fill.menus | toString) "--keep-imported" -}}
{{- if $v.fill.file.claim }}{{ $fill = concat $fill (list "--file" (printf "/input/%s" $v.fill.file.path)) }}{{ end -}}
parts:
{{- if eq $v.mode "embedded" }}
  - name: server
    kind: StatefulSet
    init:
      - name: fill
        args: {{ concat (list "menu" "seed" "--store" "pebble:/data/menus") $fill | toJson }}
        resources: {{ toJson $v.fill.resources }}
      - name: publish
        args: [menu, publish, --from, "pebble:/data/menus", --to, "record:/data/menus.record"]
        resources: {{ toJson $v.fill.resources }}
    args: [menu, serve]
    env: {MENU_STORE: "record:/data/menus.record"}
    input: {{ $v.fill.file.claim | quote }}
    listens: 8080
    drain: 5
    entry: [{path: /}]
{{- else }}
{{- $_ := required "mode external: name the Redis of proxies and servers in redis.host" $v.redis.host -}}
{{- $store := dict -}}
{{- $files := list "redis" -}}
{{- $to := dict -}}
{{- if $v.postgres.host -}}
{{- $store = dict "MENU_STORE" (include "common.postgres" $v.postgres) "PGPASSFILE" "/secrets/service/pgpass" -}}
{{- $files = list "pgpass" "redis" -}}
{{- $to = include "common.to" $v.postgres | fromJson -}}
{{- else if $v.cassandra.hosts -}}
{{- $store = dict "MENU_STORE" (printf "cassandra://%s/%s" (join "," $v.cassandra.hosts) $v.cassandra.keyspace) -}}
{{- $to = include "common.to" $v.cassandra | fromJson -}}
{{- else -}}
{{- fail "mode external: name the database in postgres.host, or in cassandra.hosts" -}}
{{- end -}}
{{- $redis := dict "MENU_REDIS" (include "common.redis" $v.redis) "MENU_REDIS_PASSWORD_FILE" "/secrets/service/redis" -}}
{{- $edits := dict "MENU_PROXY" (join "," $v.proxies) -}}
{{- $served := $files -}}
{{- $out := list $to (include "common.to" $v.redis | fromJson) -}}
{{- if $v.editing.enabled -}}
{{- $edits = merge (dict "MENU_TOKEN_FILE" "/secrets/service/token" "MENU_ACCOUNTS" "/secrets/service/accounts" "MENU_SESSION_KEY_FILE" "/secrets/service/session") $edits -}}
{{- $served = concat $served (list "token" "accounts" "session") -}}
{{- end -}}
{{- if $v.editing.webhooks -}}
{{- $edits = merge (dict "MENU_WEBHOOKS" "/secrets/service/webhooks") $edits -}}
{{- $served = append $served "webhooks" -}}
{{- $out = append $out (dict "port" 443) -}}
{{- end }}
  # What of the Ingress comes to the proxies: look-ups, pages, and changes, which they pass on.
  - name: proxy
    kind: Deployment
    args: [menu, proxy]
    env: {{ merge (dict "MENU_SERVERS" (printf "http://%s-server:8080" $name) "MENU_ROUTE" (join " " $v.routes)) $redis | toJson }}
    files: [redis]
    listens: 8080
    drain: 5
    entry: [{path: /}]
    to: {{ list (dict "part" "server" "port" 8080) (include "common.to" $v.redis | fromJson) | toJson }}
  - name: server
    kind: Deployment
    args: [menu, serve]
    env: {{ merge $edits $redis $store | toJson }}
    files: {{ toJson $served }}
    listens: 8080
    drain: 5
    from: [proxy]
    {{- if $v.editing.enabled }}
    entry: [{path: /admin}]
    {{- end }}
    to: {{ toJson $out }}
{{- if $v.fill.enabled }}
  - name: fill
    kind: Job
    args: {{ concat (list "menu" "seed") $fill | toJson }}
    env: {{ toJson $store }}
    files: {{ without $files "redis" | toJson }}
    input: {{ $v.fill.file.claim | quote }}
    to: {{ list $to | toJson }}
{{- end }}
{{- end }}
{{- end }}
