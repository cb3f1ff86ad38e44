package process

import (
	"slices"
	"strings"
	"testing"
)

func TestRedisIsAsItsImage(t *testing.T) {
	installed(t, "redis")
	c := config(t, `
services:
  cache:
    image: redis:7-alpine
    command: [redis-server, /etc/redis.conf, --save, "", --appendonly, "yes", --bind, 0.0.0.0]
    volumes: [data:/data, ./redis.conf:/etc/redis.conf]
    healthcheck: {test: [CMD-SHELL, "redis-cli ping | grep PONG"], interval: 1s}
  other: {image: redis, command: --maxmemory 10mb}
volumes: {data: {}}
`)
	file(t, c, "redis.conf", "maxmemory 5mb\nbind 127.0.0.1\n")
	cli := func(host string, args ...string) string {
		out, _ := client(t, nil, append([]string{"redis-cli", "-h", host}, args...)...)
		return out
	}
	r := up(t, c)
	cache, other := r.Instances()[0].Host, r.Instances()[1].Host
	if got := cli(cache, "SET", "dish", "soup"); got != "OK" {
		t.Errorf("SET: got %q", got)
	}
	if got := cli(cache, "CONFIG", "GET", "maxmemory"); got != "maxmemory\n5242880" {
		t.Errorf("its file: got %q", got)
	}
	if got := cli(other, "GET", "dish") + cli(other, "CONFIG", "GET", "maxmemory"); got != "maxmemory\n10485760" {
		t.Errorf("the other one: got %q, want its own data and settings", got)
	}
	down(t, r)
	r = up(t, c)
	if got := cli(r.Instances()[0].Host, "GET", "dish"); got != "soup" {
		t.Errorf("after a restart: got %q", got)
	}
	if w := r.Warnings(); slices.ContainsFunc(w, func(s string) bool { return strings.Contains(s, "redis") }) {
		t.Errorf("got warnings %q", w)
	}
}

func TestRedisHasReplicas(t *testing.T) {
	installed(t, "redis")
	c := config(t, `
services:
  primary:
    image: redis:7
    command: [redis-server, --save, "", --repl-diskless-sync-delay, "0"]
    healthcheck: {test: [CMD, redis-cli, ping], interval: 1s}
  replica:
    image: redis:7
    command: [redis-server, --save, "", --replicaof, "${PRIMARY_HOST:-primary}", "6379"]
    depends_on: {primary: {condition: service_healthy}}
    deploy: {replicas: 3}
`)
	cli := func(host string, args ...string) string {
		out, err := client(t, nil, append([]string{"redis-cli", "-h", host}, args...)...)
		if err != nil {
			t.Errorf("redis-cli -h %s %q: %v: %s", host, args, err, out)
		}
		return out
	}
	all := up(t, c).Instances()
	primary, replicas := all[0].Host, all[1:]
	eventually(t, "all replicas are in step", func() bool {
		return strings.Count(cli(primary, "INFO", "replication"), "state=online") == 3
	})
	info := cli(primary, "INFO", "replication")
	for _, r := range replicas {
		if !strings.Contains(info, "ip="+r.Host+",") {
			t.Errorf("the primary does not know the replica at %s:\n%s", r.Host, info)
		}
	}
	cli(primary, "SET", "dish", "soup")
	for _, r := range replicas {
		eventually(t, r.Name+" has what was written", func() bool { return cli(r.Host, "GET", "dish") == "soup" })
	}
}
