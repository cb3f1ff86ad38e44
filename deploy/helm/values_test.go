package helm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/strvals"
)

// TestDefinitionsAreShared: schemas of values cannot refer to one another, so each has what it needs of
// common/definitions.json, word by word.
func TestDefinitionsAreShared(t *testing.T) {
	t.Parallel()
	read := func(name string) (v values) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	shared := read("common/definitions.json")
	for _, system := range systems {
		for name, got := range read(filepath.Join(system, "values.schema.json"))["$defs"].(values) {
			if !reflect.DeepEqual(got, shared[name]) {
				t.Errorf("%s: $defs has %s otherwise than common/definitions.json", system, name)
			}
		}
	}
}

// TestWrongValuesAreRefused: each with what is to be said, which names the value.
func TestWrongValuesAreRefused(t *testing.T) {
	t.Parallel()
	const external = "mode=external,existingSecret=s,"
	for _, c := range []struct{ system, set, want string }{
		// by every schema
		{"", "mode=cluster", "at '/mode': value must be one of 'embedded', 'external'"},
		{"", "nodes=3", "at '': additional properties 'nodes' not allowed"},
		{"", "image.tag=a b", "at '/image/tag': 'a b' does not match pattern"},
		{"", "image.digest=sha256:12", "at '/image/digest': 'sha256:12' does not match pattern"},
		{"", "existingSecret.password=x", "at '/existingSecret': got object, want string"},
		{"", "password=x", "additional properties 'password' not allowed"},
		{"", "volume.size=big", "at '/volume/size': 'big' does not match pattern"},
		{"", "ingress.enabled=yes", "at '/ingress/enabled': got string, want boolean"},
		{"", "networkPolicy.monitoring[0].names=x", "at '/networkPolicy/monitoring/0': additional properties 'names' not allowed"},
		{"", "service.type=Public", "at '/service/type': value must be one of"},
		{"", "spread=never", "at '/spread': value must be one of"},
		{"", "startSeconds=0", "at '/startSeconds': minimum: got 0, want 1"},
		// of each
		{"results", "api.replicas=0", "at '/api/replicas': minimum: got 0, want 1"},
		{"results", "api.replica=2", "at '/api': additional properties 'replica' not allowed"},
		{"results", "api.resources.limits.memory=", "at '/api/resources/limits/memory'"},
		{"results", "api.autoscaling.cpuPercent=120", "at '/api/autoscaling/cpuPercent': maximum: got 120, want 100"},
		{"results", "api.autoscaling.keda.prometheus=http://user:secret@p", "at '/api/autoscaling/keda/prometheus'"},
		{"results", "api.env.results_cache=none", "at '/api/env': additional properties 'results_cache' not allowed"},
		{"results", "api.podAnnotations.again=1", "at '/api/podAnnotations/again': got number, want string"}, // which the API server refuses
		{"results", "access=closed", "at '/access': value must be one of 'code', 'open'"},
		{"results", "proxies[0]=ingress", "at '/proxies/0': 'ingress' does not match pattern"},
		{"results", "fill.publishAt=2126-07-20", "at '/fill/publishAt': '2126-07-20' does not match pattern"},
		{"results", "fill.publishAt=2126-07-20T08:00:00", "does not match pattern"}, // whose eight o'clock?
		{"results", "fill.file.path=/etc/passwd", "at '/fill/file/path'"},
		{"results", "postgres.host=user:secret@db", "at '/postgres/host': 'user:secret@db' does not match pattern"},
		{"results", "postgres.sslmode=prefer", "at '/postgres/sslmode': value must be one of"},
		{"results", "postgres.password=x", "at '/postgres': additional properties 'password' not allowed"},
		{"patterns", "pool=often", "at '/pool': value must be one of 'off', 'reject', 'wait'"},
		{"patterns", "log.replicas=2", "at '/log': additional properties 'replicas' not allowed"},
		{"patterns", "kafka.brokers[0]=kafka", "at '/kafka/brokers/0': 'kafka' does not match pattern"},
		{"menu", "routes[0]=reviews", "at '/routes/0': 'reviews' does not match pattern"},
		{"menu", "cassandra.port=9043", "at '/cassandra/port'"},
		{"menu", "fill.menus=0", "at '/fill/menus': minimum: got 0, want 1"},
		{"chat", "server.leaveSeconds=-1", "at '/server/leaveSeconds': minimum: got -1, want 0"},
		{"chat", "mariadb.password=x", "at '/mariadb': additional properties 'password' not allowed"},
		{"feed", "publisher.schedule=hourly", "at '/publisher/schedule': 'hourly' does not match pattern"},
		{"feed", "objects.bucket=Feed", "at '/objects/bucket': 'Feed' does not match pattern"},
		// what no schema says well
		{"results", external, "mode external: name the database in postgres.host"},
		{"results", "mode=external,postgres.host=db", "existingSecret: name the Secret with the passwords"},
		{"results", external + "postgres.host=db,fill.enabled=true", "fill.existingSecret: name the Secret with the owner's pgpass"},
		{"results", "api.env.RESULTS_PUBLISH_AT=2126-07-20T08:00:00Z", "the store says when results are out"},
		{"results", "api.env.RESULTS_ADMIN_TOKEN=0123456789abcdef", "values are kept in the clear"},
		{"results", "api.env.RESULTS_DRAIN=1m", "the chart sets it"},
		{"results", "adminToken=admin", "adminToken: name the Secret, in existingSecret"},
		{"patterns", "doOnce=redis", "doOnce: redis needs mode external"},
		{"patterns", "mode=external", "mode external: name the brokers of Kafka in kafka.brokers"},
		{"menu", external, "mode external: name the Redis of proxies and servers in redis.host"},
		{"menu", external + "redis.host=r", "mode external: name the database in postgres.host, or in cassandra.hosts"},
		{"chat", external, "mode external: name the brokers of Kafka in kafka.brokers"},
		{"chat", external + "kafka.brokers[0]=k:9092", "mode external: name the Redis in redis.host"},
		{"chat", external + "kafka.brokers[0]=k:9092,redis.host=r", "mode external: name the MariaDB with the streams in mariadb.host"},
		{"chat", "server.env.CHAT_OIDC_SECRET=x", "values are kept in the clear"},
		{"feed", external, "mode external: name the database in postgres.host"},
		{"feed", external + "postgres.host=db", "mode external: name the store of snapshots in objects.host"},
	} {
		among := []string{c.system}
		if c.system == "" {
			among = systems
		}
		for _, system := range among {
			v := values{}
			if err := strvals.ParseInto(strings.TrimSuffix(c.set, ","), v); err != nil {
				t.Fatal(err)
			}
			if _, err := render(system, system, versions[0], v); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s with %s: got %v, want %q", system, c.set, err, c.want)
			}
		}
	}
}

func TestAnOlderKubernetesIsRefused(t *testing.T) {
	t.Parallel()
	for _, system := range systems {
		if _, err := render(system, system, "1.29.9", values{}); err == nil {
			t.Errorf("%s: got no error", system)
		}
	}
}
