package helm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// metrics has the cluster know what its pods use, as its autoscalers ask for it.
const metrics = `
apiVersion: v1
kind: Service
metadata: {name: metrics-server, namespace: kube-system}
spec: {ports: [{port: 443, targetPort: 4443}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: metrics-server-1, namespace: kube-system, labels: {kubernetes.io/service-name: metrics-server}}
addressType: IPv4
ports: [{port: 4443}]
endpoints: [{addresses: ["` + outside + `"], conditions: {ready: true}}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  {group: metrics.k8s.io, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true,
    service: {name: metrics-server, namespace: kube-system}}
`

// Each API server has a tenth of a core, as in the experiment whose load it gets.
const feedValues = `
mode: external
existingSecret: feed
postgres: {host: ` + outside + `, sslmode: disable}
objects: {host: ` + outside + `, port: 7070, tls: false}
editing: {enabled: false}
fill: {enabled: true, posts: 10000}
api:
  resources: {requests: {cpu: 100m, memory: 64M}, limits: {cpu: 100m, memory: 256M}}
  autoscaling: {minReplicas: 1, maxReplicas: 4, downAfterSeconds: 30}
publisher: {schedule: "0 0 1 1 *"}
edge: {resources: {requests: {cpu: 50m, memory: 64M}}}
`

// TestClusterScalesTheFeed has the autoscaler of the chart follow the rush of system/feed/experiments/autoscale.yaml, and
// says when it did what. The times are since the load began; the rush is from 30 s to 140 s.
func TestClusterScalesTheFeed(t *testing.T) {
	b := inCluster(t, "feed-rush")
	b.write("metrics.yaml", metrics, 0o644)
	b.server("4443", b.command(os.Getenv("METRICS_SERVER"), "--kubeconfig", os.Getenv("KUBECONFIG"), "--authentication-kubeconfig", os.Getenv("KUBECONFIG"),
		"--authorization-kubeconfig", os.Getenv("KUBECONFIG"), "--secure-port", "4443", "--cert-dir", b.path("metrics"), "--kubelet-insecure-tls",
		"--kubelet-preferred-address-types", "InternalIP", "--metric-resolution", "15s")) // as its manifest has it
	b.run("kubectl", "apply", "-f", "metrics.yaml")
	t.Cleanup(func() { b.runAtEnd("kubectl", "delete", "-f", "metrics.yaml") })

	b.run("loadstone", "feed", "secrets", "--dir", "secrets")
	secret := func(name string) string {
		text, err := os.ReadFile(b.path("secrets/" + name))
		b.must(err)
		return strings.TrimSpace(string(text))
	}
	b.postgres(secret("password"), "feed")
	b.must(os.MkdirAll(b.path("objects/feed"), 0o755))
	gateway, err := filepath.Abs("../../.tools/bin/versitygw")
	b.must(err)
	objects := b.command(gateway, "--quiet", "--port", outside+":7070", "posix", b.path("objects"))
	objects.Env = append(objects.Env, "ROOT_ACCESS_KEY=feed", "ROOT_SECRET_KEY="+secret("s3"))
	b.server("7070", objects)
	b.run("kubectl", "create", "secret", "generic", "feed", "--from-file=secrets")
	b.write("values.yaml", feedValues, 0o644)
	b.run("helm", "install", "feed", "deploy/helm/feed", "--values", "values.yaml", "--wait")

	const name = "feed-api"
	b.until("what the first server uses", func(ctx context.Context) error {
		h, err := b.AutoscalingV2().HorizontalPodAutoscalers(b.namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && used(h) < 0 {
			err = fmt.Errorf("the autoscaler has no metrics: %+v", h.Status.Conditions)
		}
		return err
	})
	service, err := b.CoreV1().Services(b.namespace).Get(t.Context(), name, metav1.GetOptions{})
	b.must(err)
	b.balance(net.JoinHostPort(service.Spec.ClusterIP, "8080"))
	b.write("load.yaml", rush(t), 0o644)
	load := b.command("loadstone", "load", "load.yaml", "--target", "http://"+outside+":8080", "--quiet", "--json", "rush.json")
	said := &strings.Builder{}
	load.Stdout, load.Stderr = said, said
	b.must(load.Start())
	ended := make(chan error, 1)
	go func() { ended <- load.Wait() }()
	if b.course(name, ended) < 2 {
		t.Errorf("there were never more servers than one:\n%s", b.state())
	}
	b.servers(name, 1) // fewer again, once it is over
	var sum struct {
		Requests, Failed int
		Latency          struct{ Response struct{ P50, P95 float64 } }
	}
	text, err := os.ReadFile(b.path("rush.json"))
	if err = errors.Join(err, json.Unmarshal(text, &sum)); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if sum.Requests == 0 || sum.Failed > sum.Requests/100 {
		t.Errorf("%d of %d requests failed: %s", sum.Failed, sum.Requests, said)
	}
	t.Logf("%d requests, %d failed, half of them within %.0f ms and 95 %% within %.0f ms", sum.Requests, sum.Failed, sum.Latency.Response.P50, sum.Latency.Response.P95)
}

// rush is the load of the experiment, as a file of its own.
func rush(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../system/feed/experiments/autoscale.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\nload:\n")
	load, _, ends := strings.Cut(rest, "\nslo:\n")
	if !found || !ends {
		t.Fatal("autoscale.yaml has no section load: before slo:")
	}
	return "load:\n" + load
}

// balance starts an NGINX that asks a Service by a connection for each request, as it stays with the pod that has it.
func (b *beside) balance(service string) {
	b.t.Helper()
	b.must(os.MkdirAll(b.path("nginx"), 0o755))
	b.write("nginx.conf", `
daemon off; master_process off; error_log stderr; pid `+b.path("nginx/pid")+`;
events { worker_connections 4096; }
http {
    access_log off; client_body_temp_path `+b.path("nginx/body")+`; proxy_temp_path `+b.path("nginx/proxy")+`; fastcgi_temp_path `+b.path("nginx/f")+`;
    uwsgi_temp_path `+b.path("nginx/u")+`; scgi_temp_path `+b.path("nginx/s")+`;
    server { listen `+outside+`:8080; location / { proxy_pass http://`+service+`; } }
}`, 0o644)
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx"
	}
	b.server("8080", b.command(path, "-c", b.path("nginx.conf"), "-p", b.path("nginx")))
}

// used is the utilisation of CPU that an autoscaler knows, in per cent of what is asked for; -1 is none.
func used(h *autoscalingv2.HorizontalPodAutoscaler) int32 {
	for _, m := range h.Status.CurrentMetrics {
		if m.Resource != nil && m.Resource.Current.AverageUtilization != nil {
			return *m.Resource.Current.AverageUtilization
		}
	}
	return -1
}

// course says what an autoscaler does, by time, until the load has ended and there is one server again; and how many were
// ready at the most.
func (b *beside) course(name string, ended <-chan error) (most int32) {
	b.t.Helper()
	began, last, over := time.Now(), "", false
	for deadline := began.Add(4*time.Minute + soon); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		select {
		case err := <-ended:
			if over = true; err != nil {
				b.t.Errorf("the load: %v", err)
			}
		default:
		}
		h, err := b.AutoscalingV2().HorizontalPodAutoscalers(b.namespace).Get(b.t.Context(), name, metav1.GetOptions{})
		b.must(err)
		d, err := b.AppsV1().Deployments(b.namespace).Get(b.t.Context(), name, metav1.GetOptions{})
		b.must(err)
		ready := d.Status.ReadyReplicas
		most = max(most, ready)
		now := fmt.Sprintf("%d wanted, %d ready, %d %% used", h.Status.DesiredReplicas, ready, used(h))
		if now != last {
			b.t.Logf("%5.1f s: %s", time.Since(began).Seconds(), now)
			last = now
		}
		if over && ready == 1 && h.Status.DesiredReplicas == 1 {
			return most
		}
	}
	return most
}
