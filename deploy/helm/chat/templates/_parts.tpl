{{- define "chat.parts" -}}
{{- $v := .Values -}}
{{- $name := include "common.fullname" . -}}
parts:
{{- if eq $v.mode "embedded" }}
  - name: server
    kind: StatefulSet
    init:
      - name: fill
        args: [chat, seed, --data, /data/log, --streams, "{{ int64 $v.fill.streams }}", --unless-in-use]
        resources: {{ toJson $v.fill.resources }}
    args: [chat, serve]
    env: {CHAT_DATA: /data/log, CHAT_TRUSTED_PROXY: {{ join "," $v.proxies | quote }}}
    listens: 8097
    leaves: {{ int $v.server.leaveSeconds }}
    drain: 1
    entry: [{path: /}]
{{- else }}
{{- $_ := required "mode external: name the brokers of Kafka in kafka.brokers" (join "," $v.kafka.brokers) -}}
{{- $_ := required "mode external: name the Redis in redis.host" $v.redis.host -}}
{{- $_ := required "mode external: name the MariaDB with the streams in mariadb.host" $v.mariadb.host -}}
{{- $mariadb := dict "CHAT_DATABASE" (printf "mysql://%s@%s:%d/%s" $v.mariadb.user $v.mariadb.host (int $v.mariadb.port) $v.mariadb.database) "CHAT_DATABASE_PASSWORD_FILE" "/secrets/service/database" -}}
{{- $log := dict "CHAT_KAFKA" (join "," $v.kafka.brokers) "CHAT_REDIS" (include "common.redis" $v.redis) -}}
{{- $files := list -}}
{{- if $v.redis.user -}}
{{- $log = merge (dict "CHAT_REDIS_PASSWORD_FILE" "/secrets/service/redis") $log -}}
{{- $files = list "redis" -}}
{{- end -}}
{{- $to := append (include "common.brokers" $v.kafka | fromJsonArray) (include "common.to" $v.redis | fromJson) }}
  - name: server
    kind: Deployment
    args: [chat, serve]
    env: {{ merge (dict "CHAT_TRUSTED_PROXY" (join "," $v.proxies)) $log $mariadb | toJson }}
    files: {{ append $files "database" | toJson }}
    listens: 8097
    # After SIGTERM nobody is let in any more, and all viewers are told to come back: by then nobody must be sent here.
    leaves: {{ int $v.server.leaveSeconds }}
    drain: 1
    entry: [{path: /}]
    to: {{ append $to (include "common.to" $v.mariadb | fromJson) | toJson }}
    # Event loops are threads: full, they limit where there are more CPUs than loops. 60 % of the two of each.
    triggers:
      - query: sum(rate(chat_loop_busy_seconds_total{namespace="{{ .Release.Namespace }}",pod=~"{{ $name }}-server-.*"}[1m]))
        threshold: 1.2
{{- if $v.cassandra.hosts }}
  - name: sink
    kind: Deployment
    args: [chat, sink, --store, "cassandra:{{ join "," $v.cassandra.hosts }}/{{ $v.cassandra.keyspace }}"]
    env: {{ toJson $log }}
    files: {{ toJson $files }}
    to: {{ append $to (include "common.to" $v.cassandra | fromJson) | toJson }}
    # What is behind is in Kafka, and shows before CPU does.
    triggers:
      - type: kafka
        metadata: {bootstrapServers: {{ join "," $v.kafka.brokers | quote }}, consumerGroup: sink, topic: raw-chats, lagThreshold: "2000"}
{{- end }}
{{- if $v.fill.enabled }}
  - name: fill
    kind: Job
    args: [chat, seed, --streams, "{{ int64 $v.fill.streams }}"]
    env: {{ toJson $mariadb }}
    files: [database]
    to: {{ list (include "common.to" $v.mariadb | fromJson) | toJson }}
{{- end }}
{{- end }}
{{- end }}
