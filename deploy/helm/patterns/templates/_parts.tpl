{{- define "patterns.parts" -}}
{{- $v := .Values -}}
{{- $name := include "common.fullname" . -}}
{{- $serves := dict "PATTERNS_REFRESH_AHEAD" $v.refreshAhead "PATTERNS_DO_ONCE" $v.doOnce "PATTERNS_POOL" $v.pool -}}
{{- $api := list -}}
{{- $files := list -}}
{{- if eq $v.mode "embedded" -}}
{{- $serves = merge (dict "PATTERNS_ACTIVITIES" "sqlite:/data/activities.db") $serves -}}
{{- else if $v.postgres.host -}}
{{- $serves = merge (dict "PATTERNS_ACTIVITIES" (include "common.postgres" $v.postgres) "PGPASSFILE" "/secrets/service/pgpass") $serves -}}
{{- $files = list "pgpass" -}}
{{- $api = append $api (include "common.to" $v.postgres | fromJson) -}}
{{- else if $v.cassandra.hosts -}}
{{- $serves = merge (dict "PATTERNS_ACTIVITIES" (printf "cassandra:%s/%s" (join "," $v.cassandra.hosts) $v.cassandra.keyspace)) $serves -}}
{{- $api = append $api (include "common.to" $v.cassandra | fromJson) -}}
{{- end -}}
{{- if and (eq $v.mode "external") $v.redis.host -}}
{{- $serves = merge (dict "PATTERNS_REDIS" (printf "%s:%d" $v.redis.host (int $v.redis.port))) $serves -}}
{{- $api = append $api (include "common.to" $v.redis | fromJson) -}}
{{- end -}}
{{- if and (eq $v.doOnce "redis") (or (eq $v.mode "embedded") (not $v.redis.host)) -}}
{{- fail "doOnce: redis needs mode external and the address of one in redis.host; write local" -}}
{{- end -}}
{{- $events := "" -}}
{{- $queue := list -}}
{{- if $v.events.enabled -}}
{{- if eq $v.mode "embedded" -}}
{{- $events = printf "nats://%s-broker:4222?capacity=%d" $name (int $v.events.capacity) -}}
{{- $queue = list (dict "part" "broker" "port" 4222) -}}
{{- else -}}
{{- $_ := required "mode external: name the brokers of Kafka in kafka.brokers, or set events.enabled to false" (join "," $v.kafka.brokers) -}}
{{- $events = printf "kafka://%s?capacity=%d" (join "," $v.kafka.brokers) (int $v.events.capacity) -}}
{{- $queue = include "common.brokers" $v.kafka | fromJsonArray -}}
{{- end -}}
{{- $serves = merge (dict "PATTERNS_EVENTS" $events) $serves -}}
{{- end -}}
parts:
  - name: api
    kind: {{ ternary "StatefulSet" "Deployment" (eq $v.mode "embedded") }}
    args: [patterns, serve]
    env: {{ toJson $serves }}
    files: {{ toJson $files }}
    listens: 8080
    drain: 5
    entry: [{path: /}]
    to: {{ concat $api $queue | toJson }}
    # Jobs that wait for a worker of the pool: CPU does not show those that wait for something else.
    triggers:
      {{- if ne $v.pool "off" }}
      - query: sum(pool_waiting{namespace="{{ .Release.Namespace }}",pod=~"{{ $name }}-api-.*"})
        threshold: 8 # half of the queue, in each
      {{- end }}
{{- if $v.events.enabled }}
  - name: log # one: its database is a file
    kind: StatefulSet
    args: [patterns, log]
    env: {PATTERNS_STORE: /data/events.db, PATTERNS_EVENTS: {{ $events | quote }}}
    listens: 8081
    to: {{ toJson $queue }}
{{- if eq $v.mode "embedded" }}
  - name: broker
    kind: StatefulSet
    args: [patterns, broker]
    env: {PATTERNS_DIR: /data/broker}
    opens: 4222
    probes: {live: /metrics, ready: /metrics}
    from: [api, log]
{{- end }}
{{- end }}
{{- end }}
