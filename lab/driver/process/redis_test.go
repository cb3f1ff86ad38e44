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
    healthcheck: {test: [CMD-SHELL, "redis-cli ping | grep PONG"], interval: 1s, retries: 300}
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

// Three sentinels find each other, and make a replica the primary.
func TestRedisHasSentinels(t *testing.T) {
	installed(t, "redis")
	c := config(t, `
services:
  primary: {image: redis:7, healthcheck: {test: [CMD, redis-cli, ping], interval: 1s, retries: 300}}
  replica:
    image: redis:7
    command: [redis-server, --replicaof, "${PRIMARY_HOST:-primary}", "6379", --repl-diskless-sync-delay, "0"]
    depends_on: {primary: {condition: service_healthy}}
  sentinel:
    image: redis:7
    command: [sh, -c, 'test -s "$$1" || echo "$$CONF" >"$$1"; exec redis-server "$$@"', sh, /data/sentinel.conf, --sentinel]
    environment:
      CONF: |
        sentinel monitor dishes ${PRIMARY_HOST:-primary} 6379 2
        sentinel down-after-milliseconds dishes 3000
        sentinel failover-timeout dishes 5000
    expose: ["26379"]
    healthcheck: {test: [CMD, redis-cli, -p, "26379", ping], interval: 1s, retries: 300}
    depends_on: {primary: {condition: service_healthy}}
    deploy: {replicas: 3}
`)
	r := up(t, c)
	of := map[string]string{}
	for _, i := range r.Instances() {
		of[i.Name] = i.Host
	}
	cli := func(host string, args ...string) string {
		out, _ := client(t, nil, append([]string{"redis-cli", "-h", host}, args...)...) // it may be away
		return out
	}
	ask := func(about ...string) string {
		return cli(of["sentinel-1"], append([]string{"-p", "26379", "SENTINEL"}, about...)...)
	}
	eventually(t, "the sentinels and the replica are known", func() bool {
		return strings.Count(ask("SENTINELS", "dishes"), "runid") == 2 && strings.Contains(ask("REPLICAS", "dishes"), of["replica-1"])
	})
	if err := r.Pause(t.Context(), "primary-1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replica is the primary", func() bool { return strings.Contains(ask("GET-MASTER-ADDR-BY-NAME", "dishes"), of["replica-1"]) })
	if err := r.Resume(t.Context(), "primary-1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other one is its replica", func() bool { return strings.Contains(cli(of["primary-1"], "INFO", "replication"), "role:slave") })
}

func TestRedisHasReplicas(t *testing.T) {
	installed(t, "redis")
	c := config(t, `
services:
  primary:
    image: redis:7
    command: [redis-server, --save, "", --repl-diskless-sync-delay, "0"]
    healthcheck: {test: [CMD, redis-cli, ping], interval: 1s, retries: 300}
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
