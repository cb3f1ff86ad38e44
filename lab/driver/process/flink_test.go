package process

import (
	"encoding/json"
	"net"
	"net/http"
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
	url := "http://" + net.JoinHostPort(r.Instances()[0].Host, "8081") + "/overview"
	eventually(t, "both task managers have given their slots", func() bool {
		response, err := http.Get(url)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		var overview struct {
			TaskManagers int `json:"taskmanagers"`
			Slots        int `json:"slots-total"`
		}
		return json.NewDecoder(response.Body).Decode(&overview) == nil && overview.TaskManagers == 2 && overview.Slots == 6
	})
}
