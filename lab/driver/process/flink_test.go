package process

import (
	"encoding/json"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"loadstone/block/servertest"
)

// A cluster of one job manager and two task managers has their slots, within their limits of memory.
func TestFlinkIsACluster(t *testing.T) {
	servertest.Large(t)
	installed(t, "flink")
	r := up(t, config(t, `
services:
  jobmanager:
    image: flink:2.3
    command: jobmanager
    healthcheck: {test: [CMD, bash, -c, "exec 3<>/dev/tcp/${BIND_HOST:-localhost}/8081"], interval: 1s, retries: 180}
    deploy: {resources: {limits: {memory: 600M}}}
  taskmanager:
    image: flink:2.3
    command: taskmanager
    expose: ["6122"]
    environment:
      FLINK_PROPERTIES: |
        jobmanager.rpc.address: jobmanager
        taskmanager.numberOfTaskSlots: 3
    depends_on: {jobmanager: {condition: service_healthy}}
    deploy: {replicas: 2, resources: {limits: {memory: 600M}}}
`))
	eventually(t, "both task managers have given their slots", func() bool {
		var overview struct {
			TaskManagers int `json:"taskmanagers"`
			Slots        int `json:"slots-total"`
		}
		return asked(r.Instances()[0].Host, "/overview", &overview) && overview.TaskManagers == 2 && overview.Slots == 6
	})
}

// asked asks a job manager.
func asked(host, path string, to any) bool {
	response, err := http.Get("http://" + net.JoinHostPort(host, "8081") + path)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(to) == nil
}

// A job manager of one job runs it, and runs it again once it was killed.
func TestFlinkRunsItsJobAgain(t *testing.T) {
	servertest.Large(t)
	installed(t, "flink")
	dir := t.TempDir()
	lib := filepath.Join(filepath.Dir(servertest.Fetched(t, "Flink", "flink-*/bin/flink")), "..", "lib", "*")
	for _, command := range [][]string{
		{"javac", "--release", "17", "-cp", lib, "-d", filepath.Join(dir, "classes"), "testdata/Sleep.java"},
		{"jar", "cf", filepath.Join(dir, "sleep.jar"), "-C", filepath.Join(dir, "classes"), "."},
	} {
		if _, err := exec.LookPath(command[0]); err != nil {
			servertest.Missing(t, "there is no Java compiler: apt-get install openjdk-17-jdk-headless")
		}
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command[0], err, out)
		}
	}
	r := up(t, config(t, `
services:
  jobmanager:
    image: flink:2.3
    command: [standalone-job, --jars, /job/sleep.jar, --job-classname, Sleep, of ours]
    volumes: ["`+dir+`/sleep.jar:/job/sleep.jar:ro"]
    environment: {FLINK_PROPERTIES: &flink "jobmanager.rpc.address: jobmanager\nheartbeat.timeout: 20000\n"}
    healthcheck: {test: [CMD, bash, -c, "exec 3<>/dev/tcp/${BIND_HOST:-localhost}/8081"], interval: 1s, retries: 180}
    deploy: {resources: {limits: {memory: 600M}}}
  taskmanager:
    image: flink:2.3
    command: taskmanager
    expose: ["6122"]
    environment: {FLINK_PROPERTIES: *flink}
    depends_on: {jobmanager: {condition: service_healthy}}
    deploy: {resources: {limits: {memory: 600M}}}
`))
	manager := r.Instances()[0]
	ran := map[string]bool{} // by the ids of jobs
	for life := range 2 {
		if life > 0 {
			if err := r.Kill(t.Context(), manager.Name); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Start(t.Context(), manager.Name); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "the job runs, and is another one than before", func() bool {
			var all struct {
				Jobs []struct {
					ID    string `json:"jid"`
					Name  string `json:"name"`
					State string `json:"state"`
					Tasks struct {
						Running int `json:"running"`
						Total   int `json:"total"`
					} `json:"tasks"`
				} `json:"jobs"`
			}
			if !asked(manager.Host, "/jobs/overview", &all) || len(all.Jobs) != 1 {
				return false
			}
			j := all.Jobs[0]
			if j.Name != "of ours" || j.State != "RUNNING" || j.Tasks.Total == 0 || j.Tasks.Running != j.Tasks.Total || ran[j.ID] {
				return false
			}
			ran[j.ID] = true
			return true
		})
	}
}
