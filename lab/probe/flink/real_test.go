package flink

import (
	"fmt"
	"math"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/lab/driver/drivertest/probetest"
)

// compose has two task managers, and a job that reads from a broker: the argument is its jar.
const compose = `
services:
  kafka:
    image: apache/kafka
    environment:
      KAFKA_HEAP_OPTS: -Xmx256m -Xms256m
      KAFKA_JVM_PERFORMANCE_OPTS: -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
    healthcheck: {test: [CMD, bash, -c, "exec 3<>/dev/tcp/${BIND_HOST:-localhost}/9092"], interval: 200ms, retries: 900}
    deploy: {resources: {limits: {memory: 640M}}}
  jobmanager:
    image: flink:2.3
    command: jobmanager
    environment: {FLINK_PROPERTIES: &flink "jobmanager.rpc.address: jobmanager\ntaskmanager.numberOfTaskSlots: 2\nmetrics.fetcher.update-interval: 1000\n"}
    healthcheck: {test: [CMD, bash, -c, "exec 3<>/dev/tcp/${BIND_HOST:-localhost}/8081"], interval: 1s, retries: 180}
    deploy: {resources: {limits: {memory: 600M}}}
  job:
    image: flink:2.3
    command: [flink, run, --detached, -m, "${JOBMANAGER_HOST:-jobmanager}:8081", -c, Work, /work.jar, "${KAFKA_HOST:-kafka}:9092"]
    volumes: ["%s:/work.jar:ro"]
    depends_on: {jobmanager: {condition: service_healthy}, kafka: {condition: service_healthy}}
    deploy: {resources: {limits: {memory: 512M}}}
  taskmanager:
    image: flink:2.3
    command: taskmanager
    environment: {FLINK_PROPERTIES: *flink}
    expose: ["6122"]
    depends_on: {job: {condition: service_completed_successfully}}
    deploy: {replicas: 2, resources: {limits: {memory: 600M}}}
`

// jar is the job of testdata.
func jar(t *testing.T) string {
	t.Helper()
	lib := filepath.Join(filepath.Dir(servertest.Fetched(t, "Flink", "flink-*/bin/flink")), "..", "lib", "*")
	dir := t.TempDir()
	path := filepath.Join(dir, "work.jar")
	for _, command := range [][]string{
		{"javac", "--release", "17", "-nowarn", "-cp", lib, "-d", filepath.Join(dir, "classes"), "testdata/Work.java"},
		{"jar", "cf", path, "-C", filepath.Join(dir, "classes"), "."},
	} {
		if _, err := exec.LookPath(command[0]); err != nil {
			servertest.Missing(t, "there is no Java compiler: apt-get install openjdk-17-jdk-headless")
		}
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command[0], err, out)
		}
	}
	return path
}

// A cluster of two task managers tells of each subtask, wherever it runs.
func TestEachSubtaskOfAClusterIsTold(t *testing.T) {
	servertest.Large(t)
	running := program.Up(t, fmt.Sprintf(compose, jar(t)))
	manager, pid := "", 0
	for _, in := range running.Instances() {
		if in.Service == "jobmanager" {
			manager, pid = net.JoinHostPort(in.Host, "8081"), in.PID
		}
	}
	r := Open("taskmanager", at(manager))
	defer r.Close()
	var want []string
	for subtask := range 3 {
		for _, stage := range []string{"orders.in/all", "work"} {
			for _, series := range []string{busySeries, heldSeries, recordsSeries} {
				want = append(want, fmt.Sprintf("%s{stage=%q,subtask=\"%d\"}", series, stage, subtask))
			}
		}
		want = append(want, fmt.Sprintf("%s{stage=\"orders.in/all\",subtask=\"%d\"}", pendingSeries, subtask))
	}
	began := time.Now()
	var last map[string]float64
	var lacks []string
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		last, lacks = probetest.Read(t, r), nil
		for _, series := range want {
			if v, ok := last[series]; !ok || math.IsNaN(v) {
				lacks = append(lacks, series)
			}
		}
		if len(lacks) == 0 && last[recordsSeries+`{stage="work",subtask="2"}`] > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %v, and %q are not known", last, lacks)
		}
	}
	if len(last) != len(want) {
		t.Errorf("got %v, want %q and no other", last, want)
	}
	stages := r.Resources()
	if len(stages) != 2 || stages[0].Lag == "" || stages[1].After != "taskmanager.orders.in/all" {
		t.Errorf("the stages are %+v", stages)
	}
	t.Logf("all was told after %v", time.Since(began).Round(time.Second/10))
	probetest.LogCost(t, pid, func() { probetest.Read(t, r) })
}
