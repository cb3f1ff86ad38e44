package process

import (
	"os"
	"strings"
	"testing"
	"time"

	"loadstone/lab/topology"
)

// vcl keeps all answers of the api for an hour.
const vcl = `vcl 4.1;
include "from.vcl";
sub vcl_recv {
  if (req.method == "PURGE") { return (purge); }
  if (req.url == "/synth") { return (synth(200)); }
}
sub vcl_backend_response { set beresp.ttl = 1h; }
sub vcl_synth { synthetic("made here"); return (deliver); }
`

func TestVarnishIsAsItsImage(t *testing.T) {
	installed(t, "varnish")
	compose := strings.ReplaceAll(`
services:
  api: {image: loadstone, x-process: [$SELF, serve, "${BIND_HOST:-0.0.0.0}:8080"], expose: ["8080"]}
  cache:
    image: varnish:7.1
    command: [-p, default_grace=0]
    environment: {VARNISH_SIZE: 8M, VARNISH_HTTP_PORT: 8080, VARNISH_PROXY_PORT: 8443}
    volumes: ["./vcl:/etc/varnish"]
    expose: ["8080"]
    healthcheck: {test: [CMD, varnishadm, ping], retries: 300, interval: 1s}
    stop_grace_period: 2m
    depends_on: [api]
    deploy: {resources: {limits: {cpus: "0.5"}}}
  plain: {image: varnish, expose: ["80"]}
`, "$SELF", os.Args[0])
	if os.Geteuid() != 0 { // only root may use port 80
		compose, _, _ = strings.Cut(compose, "  plain:")
	}
	c := config(t, compose)
	file(t, c, "vcl/default.vcl", vcl)
	file(t, c, "vcl/from.vcl", `backend default { .host = "api"; .port = "8080"; }`)
	r := up(t, c)
	at := map[string]topology.Instance{}
	for _, in := range r.Instances() {
		at[in.Service] = in
	}
	base := "http://" + at["cache"].Host + ":8080"
	if first := get(base + "/env"); !strings.Contains(first, "PATH=") || get(base+"/env") != first {
		t.Errorf("got %.200q through it", first)
	}
	if got := get(base + "/synth"); got != "made here" {
		t.Errorf("its VCL: got %q", got)
	}
	eventually(t, "it found an answer", func() bool { // it counts with a delay
		said, err := r.Exec(t.Context(), "cache-1", []string{"varnishstat", "-1", "-f", "MAIN.cache_hit"}, time.Minute)
		fields := strings.Fields(said)
		return err == nil && len(fields) > 1 && fields[1] == "1"
	})
	if err := r.Kill(t.Context(), "cache-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start(t.Context(), "cache-1"); err != nil {
		t.Fatal(err)
	}
	if got := get(base + "/synth"); got != "made here" {
		t.Errorf("started again: got %q", got)
	}
	if got := get("http://" + at["plain"].Host + "/"); os.Geteuid() == 0 && !strings.Contains(got, "Varnish is running") {
		t.Errorf("the image's own page: got %.200q", got)
	}
	down(t, r)
	if w := strings.Join(r.Warnings(), "|"); strings.Contains(w, "varnish") || strings.Contains(w, "cache-1") {
		t.Errorf("got warnings %q", w)
	}
	wantNoDirs(t, os.Getpid())
}
