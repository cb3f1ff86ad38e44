package recipe

import (
	"os"
	"slices"
	"strings"
	"testing"

	"loadstone/lab/topology"
)

func TestPrometheusConfigurationIsRendered(t *testing.T) {
	t.Parallel()
	const config = `
global: {scrape_interval: 5s, external_labels: {replica: "1"}}
rule_files: [rules/*.yml, /other/x.yml]
scrape_configs:
  - job_name: a
    bearer_token_file: /run/secrets/token
    static_configs: [{targets: ["api:8080", "localhost:9090", "example.org:1", bare], labels: {l: "api:8080"}}]
    relabel_configs: [{source_labels: [__address__], regex: '(.+):\d+', target_label: x, replacement: '$1'}]
  - job_name: b
    dns_sd_configs: [{names: [tasks.api], type: A, port: 81}, {names: [example.org], type: A, port: 82}]
    file_sd_configs: [{files: [targets.json]}]
`
	const want = `global:
  scrape_interval: 5s
  external_labels:
    replica: "1"
rule_files:
- /me/conf/rules/*.yml
- $D/other/x.yml
scrape_configs:
- job_name: a
  bearer_token_file: /me/token
  static_configs:
  - targets:
    - 127.77.1.1:8080
    - 127.77.1.2:8080
    - 127.77.1.9:9090
    - example.org:1
    - bare
    labels:
      l: api:8080
  relabel_configs:
  - source_labels:
    - __address__
    regex: "(.+):\\d+"
    target_label: x
    replacement: $1
- job_name: b
  dns_sd_configs:
  - names:
    - example.org
    type: A
    port: 82
  file_sd_configs:
  - files:
    - /me/conf/targets.json
  static_configs:
  - targets:
    - 127.77.1.1:81
    - 127.77.1.2:81
`
	in := testInstance(t, topology.Volume{Source: "/me/conf", Target: "/etc/prometheus"},
		topology.Volume{Text: config, Target: prometheusConfig}, topology.Volume{Source: "/me/token", Target: "/run/secrets/token"})
	file, err := in.renderPrometheus(prometheusConfig)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if got := strings.ReplaceAll(string(text), in.Dir+"/root", "$D"); err != nil || got != want {
		t.Errorf("got %v and\n%s", err, got)
	}
}

func TestPrometheusArguments(t *testing.T) {
	t.Parallel()
	in := testInstance(t)
	in.Files["prometheus"] = "p"
	in.Service.Arguments = []string{"--web.listen-address", ":9091", "--storage.tsdb.path=tsdb", "--storage.tsdb.retention.time=1h"}
	p, err := startPrometheus(t.Context(), in)
	want := []string{"p", "--config.file=" + in.Dir + "/prometheus.yml", "--storage.tsdb.path=" + in.Dir + "/root/prometheus/tsdb", "--web.listen-address=127.77.1.9:9091", "--storage.tsdb.retention.time=1h"}
	if err != nil || !slices.Equal(p.Command, want) {
		t.Errorf("got %+v, %v, want %q", p, err, want)
	}
	for args, want := range map[string]string{"--config.file=/none.yml": "/none.yml: it is not mounted", "--config.file=/bad.yml": "/bad.yml: it is not valid YAML"} {
		in := testInstance(t, topology.Volume{Text: "a: [", Target: "/bad.yml"})
		in.Service.Arguments = []string{args}
		if _, err := startPrometheus(t.Context(), in); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}
