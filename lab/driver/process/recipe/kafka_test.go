package recipe

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadstone/lab/topology"
)

// kafkaInstance is the second of three of kafka, with the variables given.
func kafkaInstance(t *testing.T, env map[string]string, volumes ...topology.Volume) *Instance {
	t.Helper()
	in := testInstance(t, volumes...)
	in.Service.Name, in.Service.Environment = "kafka", env
	in.Host = "127.77.1.12"
	in.Hosts["kafka"] = []string{"127.77.1.11", in.Host, "127.77.1.13"}
	in.Files = map[string]string{"kafka-server-start.sh": "/k/bin/kafka-server-start.sh", "kafka-storage.sh": "/k/bin/kafka-storage.sh"}
	return in
}

// alone makes the instance the only one of its service.
func alone(in *Instance) *Instance {
	in.Hosts["kafka"] = []string{in.Host}
	return in
}

// settings is what the instance's file sets.
func settings(t *testing.T, in *Instance) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(in.Dir, "server.properties"))
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		set[name] = value
	}
	return set
}

// wantSettings starts the instance and compares some of its settings; an
// empty value is a setting that is not there.
func wantSettings(t *testing.T, in *Instance, want map[string]string) {
	t.Helper()
	if _, err := startKafka(t.Context(), in); err != nil {
		t.Error(err)
		return
	}
	set := settings(t, in)
	for name, value := range want {
		if set[name] != value {
			t.Errorf("%s: got %q, want %q", name, set[name], value)
		}
	}
}

func TestKafkaWithoutSettingsIsOneNode(t *testing.T) {
	t.Parallel()
	in := alone(kafkaInstance(t, nil))
	wantSettings(t, in, map[string]string{
		"process.roles": "broker,controller", "node.id": "1",
		"listeners":                        "PLAINTEXT://127.77.1.12:9092,CONTROLLER://127.77.1.12:9093",
		"advertised.listeners":             "PLAINTEXT://127.77.1.12:9092",
		"controller.quorum.voters":         "1@127.77.1.12:9093",
		"log.dirs":                         in.Dir + "/root/tmp/kraft-combined-logs",
		"offsets.topic.replication.factor": "1", "transaction.state.log.min.isr": "1",
	})
}

func TestKafkasVariablesAreItsSettings(t *testing.T) {
	t.Parallel()
	in := alone(kafkaInstance(t, map[string]string{
		"KAFKA_NODE_ID": "4", "KAFKA_NUM_PARTITIONS": "8", "KAFKA_SASL_OAUTHBEARER_A__B___C": `x\y`, "KAFKA_OPTS": "-Da=b", "CLUSTER_ID": "x",
		"KAFKA_LISTENERS": "OUT://:29092,IN://0.0.0.0:19092,CTL://:9093", "KAFKA_CONTROLLER_LISTENER_NAMES": "CTL", "KAFKA_JMX_PORT": "9",
		"KAFKA_ADVERTISED_LISTENERS":     "OUT://localhost:9092,IN://kafka:19092",
		"KAFKA_CONTROLLER_QUORUM_VOTERS": "4@kafka:9093,5@one:9094,6@elsewhere:1", "KAFKA_LOG_DIRS": "/data/a,/data/b",
		"KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "2", "OTHER": "no",
	}, topology.Volume{Name: "data", Target: "/data"}))
	dir := t.TempDir()
	in.Volumes["data"] = dir
	var warnings []string
	in.Warnf = func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	wantSettings(t, in, map[string]string{
		"node.id": "4", "num.partitions": "8", "sasl.oauthbearer.a_b-c": `x\\y`, "opts": "", "other": "", "jmx.port": "",
		"listeners":                        "OUT://127.77.1.12:29092,IN://127.77.1.12:19092,CTL://127.77.1.12:9093",
		"advertised.listeners":             "OUT://127.77.1.12:29092,IN://127.77.1.12:19092",
		"controller.quorum.voters":         "4@127.77.1.12:9093,5@127.77.1.3:9094,6@elsewhere:1",
		"log.dirs":                         dir + "/a," + dir + "/b",
		"offsets.topic.replication.factor": "2", "transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2",
	})
	if want := []string{"KAFKA_JMX_PORT has no effect here"}; !slices.Equal(warnings, want) {
		t.Errorf("got warnings %q, want %q", warnings, want)
	}
}

func TestReplicasOfKafkaAreACluster(t *testing.T) {
	t.Parallel()
	const voters = "5@127.77.1.11:9093,6@127.77.1.12:9093,7@127.77.1.13:9093"
	for _, given := range []string{"", "5@kafka:9093", "5@localhost:9093"} {
		in := kafkaInstance(t, map[string]string{"KAFKA_NODE_ID": "5", "KAFKA_CONTROLLER_QUORUM_VOTERS": given})
		wantSettings(t, in, map[string]string{
			"node.id": "6", "controller.quorum.voters": voters, "advertised.listeners": "PLAINTEXT://127.77.1.12:9092",
			"log.dirs": in.Dir + "/root/tmp/kraft-combined-logs/node-2", "offsets.topic.replication.factor": "3",
		})
	}
	wantSettings(t, kafkaInstance(t, map[string]string{"KAFKA_PROCESS_ROLES": "broker", "KAFKA_CONTROLLER_QUORUM_VOTERS": "9@one:9093"}), map[string]string{
		"node.id": "2", "controller.quorum.voters": "9@127.77.1.3:9093", "listeners": "PLAINTEXT://127.77.1.12:9092", "offsets.topic.replication.factor": "3",
	})
	wantSettings(t, kafkaInstance(t, map[string]string{"KAFKA_PROCESS_ROLES": "controller"}), map[string]string{
		"listeners": "CONTROLLER://127.77.1.12:9093", "advertised.listeners": "",
	})
	// A proxy of each broker stands before it.
	wantSettings(t, kafkaInstance(t, map[string]string{"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://api:19092"}), map[string]string{
		"advertised.listeners": "PLAINTEXT://127.77.1.2:19092",
	})
}

func TestKafkasDataIsFormattedOnce(t *testing.T) {
	t.Parallel()
	in := alone(kafkaInstance(t, map[string]string{"KAFKA_LOG_DIRS": "/x/a,/x/b"}))
	var steps []Step
	in.Run = func(_ context.Context, s Step) error { steps = append(steps, s); return nil }
	p, err := startKafka(t.Context(), in)
	if err != nil || len(steps) != 1 {
		t.Fatalf("got %d steps, %v, want the format", len(steps), err)
	}
	file := filepath.Join(in.Dir, "server.properties")
	if want := []string{"/k/bin/kafka-storage.sh", "format", "--ignore-formatted", "-t", kafkaCluster, "-c", file}; !slices.Equal(steps[0].Command, want) {
		t.Errorf("got %q, want %q", steps[0].Command, want)
	}
	if want := []string{"/k/bin/kafka-server-start.sh", file}; !slices.Equal(p.Command, want) || p.Env["PATH"] != "/k/bin:/usr/bin" {
		t.Errorf("got %q with %q, want %q", p.Command, p.Env, want)
	}
	for _, dir := range []string{"a", "b"} { // cut off after the first
		steps = nil
		if _, err := startKafka(t.Context(), in); err != nil || len(steps) != 1 {
			t.Errorf("before %s is formatted: got %d steps, %v", dir, len(steps), err)
		}
		if err := os.WriteFile(filepath.Join(in.Dir, "root/x", dir, "meta.properties"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	steps = nil
	if _, err := startKafka(t.Context(), in); err != nil || len(steps) != 0 {
		t.Errorf("formatted: got %d steps, %v", len(steps), err)
	}
}

func TestTheHeapFitsTheMemoryLimit(t *testing.T) {
	t.Parallel()
	f := func(limit uint64, given, want string) {
		t.Helper()
		in := alone(kafkaInstance(t, map[string]string{}))
		if given != "" {
			in.Service.Environment["KAFKA_HEAP_OPTS"] = given
		}
		if limit > 0 {
			in.Service.Limits.Memory = &limit
		}
		p, err := startKafka(t.Context(), in)
		if err != nil || p.Env["KAFKA_HEAP_OPTS"] != want {
			t.Errorf("limit %d: got %q, %v, want %q", limit, p.Env["KAFKA_HEAP_OPTS"], err, want)
		}
	}
	f(0, "", "-Xmx1024m -Xms1024m")
	f(4<<30, "", "-Xmx1024m -Xms1024m")
	f(600<<20, "", "-Xmx300m -Xms300m")
	f(600<<20, "-Xmx400m", "") // the service's own, which stays
}

func TestWhatKafkaCannotBeIsSaid(t *testing.T) {
	t.Parallel()
	f := func(name, value, want string) {
		t.Helper()
		_, err := startKafka(t.Context(), kafkaInstance(t, map[string]string{name: value}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s=%s: got %v, want %q", name, value, err, want)
		}
	}
	f("KAFKA_NODE_ID", "one", `KAFKA_NODE_ID is "one"`)
	f("KAFKA_LISTENERS", "9092", `KAFKA_LISTENERS: "9092" is not a listener; write it as PLAINTEXT://:9092`)
	f("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://kafka", `KAFKA_ADVERTISED_LISTENERS: "PLAINTEXT://kafka" is not a listener`)
	f("KAFKA_CONTROLLER_QUORUM_VOTERS", "kafka:9093", `"kafka:9093" is not a voter; write it as 1@kafka:9093`)
	f("KAFKA_CONTROLLER_QUORUM_VOTERS", "1@kafka:9093,2@kafka:9093", `is the second voter with the id 2`)
	f("KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS", "kafka:9093", "KAFKA_CONTROLLER_QUORUM_VOTERS instead")
	f("KAFKA_PROCESS_ROLES", "broker", "it is not a controller")

	in := kafkaInstance(t, nil)
	in.Service.Arguments = []string{"sh"}
	if _, err := startKafka(t.Context(), in); err == nil || !strings.Contains(err.Error(), "x-process") {
		t.Errorf("with a command: got %v", err)
	}
}
