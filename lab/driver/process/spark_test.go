package process

import (
	"encoding/json"
	"net"
	"net/http"
	"testing"

	"loadstone/block/servertest"
)

// A worker finds its master, and a driver both: it computes with an executor there.
func TestSparkIsACluster(t *testing.T) {
	servertest.Large(t)
	installed(t, "spark")
	r := up(t, config(t, `
services:
  sparkmaster:
    image: spark:3.5
    command: /opt/spark/bin/spark-class org.apache.spark.deploy.master.Master
    environment: {SPARK_DAEMON_MEMORY: 128m}
    expose: ["7077", "8080"]
    healthcheck: {test: [CMD, bash, -c, "exec 3<>/dev/tcp/${BIND_HOST:-localhost}/8080"], interval: 1s, retries: 180}
    deploy: {resources: {limits: {memory: 384M}}}
  sparkworker:
    image: spark:3.5
    command: /opt/spark/bin/spark-class org.apache.spark.deploy.worker.Worker --cores 1 --memory 600m spark://sparkmaster:7077
    environment: {SPARK_DAEMON_MEMORY: 128m}
    healthcheck: {test: [CMD, bash, -c, "exec 3<>/dev/tcp/${BIND_HOST:-localhost}/8081"], interval: 1s, retries: 180}
    depends_on: {sparkmaster: {condition: service_healthy}}
    deploy: {resources: {limits: {memory: 1200M}}}
  job:
    image: spark:3.5
    command: /opt/spark/bin/spark-submit --master spark://sparkmaster:7077 --driver-memory 512m --executor-memory 512m /job/job.py
    configs: [{source: job, target: /job/job.py}]
    depends_on: {sparkworker: {condition: service_healthy}}
    deploy: {resources: {limits: {memory: 900M}}}
  late: # when the job has ended well
    image: spark:3.5
    command: /opt/spark/bin/spark-class org.apache.spark.deploy.master.Master
    environment: {SPARK_DAEMON_MEMORY: 128m}
    healthcheck: {test: [CMD, bash, -c, "exec 3<>/dev/tcp/${BIND_HOST:-localhost}/8080"], interval: 1s, retries: 180}
    depends_on: {job: {condition: service_completed_successfully}}
configs:
  job:
    content: |
      from pyspark.sql import SparkSession
      spark = SparkSession.builder.getOrCreate()
      assert spark.sparkContext.parallelize(range(1000), 4).map(lambda n: n * n).sum() == 332833500
`))
	url := "http://" + net.JoinHostPort(r.Instances()[0].Host, "8080") + "/json/"
	eventually(t, "the master knows of it", func() bool {
		response, err := http.Get(url)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		var master struct {
			Completed []struct {
				State string `json:"state"`
			} `json:"completedapps"`
		}
		return json.NewDecoder(response.Body).Decode(&master) == nil && len(master.Completed) == 1 && master.Completed[0].State == "FINISHED"
	})
}
