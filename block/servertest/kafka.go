package servertest

import (
	"net"
	"os/exec"
	"path/filepath"
	"testing"
)

// KafkaBroker is one that is its own controller and its whole cluster.
type KafkaBroker struct {
	*Process

	// Addr is its host and port.
	Addr string
}

// kafkaSettings: the broker may be back two seconds after it was killed instead of
// nine.
const kafkaSettings = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%[1]s:9093
listeners=PLAINTEXT://%[1]s:9092,CONTROLLER://%[1]s:9093
advertised.listeners=PLAINTEXT://%[1]s:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=%[2]s/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
`

// Kafka starts a broker.
func Kafka(tb testing.TB) *KafkaBroker {
	tb.Helper()
	start := Fetched(tb, "Kafka", "kafka-*/bin/kafka-server-start.sh")
	bin, dir, host := filepath.Dir(start), tb.TempDir(), Host()
	settings := filepath.Join(dir, "server.properties")
	writef(tb, settings, kafkaSettings, host, dir)
	env := []string{
		"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + dir, "LOG_DIR=" + dir, "KAFKA_OPTS=-Djava.io.tmpdir=" + dir,
		// Compiled quickly rather than well, which makes a start shorter.
		"KAFKA_HEAP_OPTS=-Xmx256m -Xms256m", "KAFKA_JVM_PERFORMANCE_OPTS=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
	}
	format := exec.CommandContext(tb.Context(), filepath.Join(bin, "kafka-storage.sh"), "format", "-t", "5L6g3nShT-eMCtK--X86sw", "-c", settings)
	format.Env = env
	if err := run(format); err != nil {
		tb.Fatal(err)
	}
	addr := net.JoinHostPort(host, "9092")
	b := &KafkaBroker{Addr: addr, Process: New(tb, Program{
		Command: []string{start, settings}, Env: env, Dir: dir, Log: filepath.Join(dir, "log"), Ready: Dials(addr),
	})}
	b.Start()
	return b
}
