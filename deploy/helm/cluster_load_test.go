package helm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// postgres starts a PostgreSQL beside the cluster, which takes passwords alone, and makes a database.
func (b *beside) postgres(password, database string) {
	b.t.Helper()
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin/pg_ctl")
	if len(programs) == 0 {
		b.t.Fatalf("PostgreSQL is not installed (%v); run make setup", err)
	}
	account, err := user.Lookup("postgres") // which root is not
	b.must(err)
	uid, err := strconv.Atoi(account.Uid)
	b.must(err)
	gid, err := strconv.Atoi(account.Gid)
	b.must(err)
	dir := b.path("postgres")
	b.must(os.Mkdir(dir, 0o700))
	b.write("postgres/password", password, 0o600)
	for _, name := range []string{dir, dir + "/password"} {
		b.must(os.Chown(name, uid, gid))
	}
	for at := b.dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		b.must(os.Chmod(at, 0o755)) //nolint:gosec // it has to get there
	}
	do := func(name string, args ...string) {
		b.t.Helper()
		cmd := exec.Command(filepath.Join(filepath.Dir(programs[len(programs)-1]), name), args...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		// Its output is not read: the server would keep that open.
		if err := cmd.Run(); err != nil {
			log, _ := os.ReadFile(dir + "/log")
			b.t.Fatalf("%s: %v\n%s", name, err, log)
		}
	}
	do("initdb", "--pgdata", dir+"/data", "--username", "postgres", "--pwfile", dir+"/password", "--auth-local", "trust", "--auth-host", "scram-sha-256", "--no-sync")
	hba, err := os.OpenFile(dir+"/data/pg_hba.conf", os.O_APPEND|os.O_WRONLY, 0)
	b.must(err)
	_, err = hba.WriteString("host all all all scram-sha-256\n")
	b.must(errors.Join(err, hba.Close()))
	settings := "-c listen_addresses=" + outside + " -c unix_socket_directories=" + dir + " -c fsync=off"
	do("pg_ctl", "--pgdata", dir+"/data", "--wait", "--log", dir+"/log", "--options", settings, "start")
	b.t.Cleanup(func() { do("pg_ctl", "--pgdata", dir+"/data", "--wait", "--mode", "immediate", "stop") })
	do("createdb", "--host", dir, "--username", "postgres", database)
}

// redis starts a Redis beside the cluster, with users of a file.
func (b *beside) redis(users string) {
	b.t.Helper()
	b.server("6379", b.command("redis-server", "--bind", outside, "--port", "6379", "--aclfile", users, "--protected-mode", "no", "--save", "", "--dir", b.dir))
}

// server starts a program beside the cluster, until the test ends, and waits until it takes connections at a port.
func (b *beside) server(port string, cmd *exec.Cmd) {
	b.t.Helper()
	log := b.path("log-" + port)
	file, err := os.Create(log)
	b.must(err)
	cmd.Stdout, cmd.Stderr = file, file
	b.must(errors.Join(cmd.Start(), file.Close()))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	b.until(cmd.Args[0], func(ctx context.Context) error {
		select {
		case err := <-ended:
			ended <- err
			said, _ := os.ReadFile(log)
			b.t.Fatalf("%s has ended: %v\n%s", cmd.Args[0], err, said)
		default:
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(outside, port))
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// under does something while load is offered, by connections that are kept and by one for each request, and wants no
// request to fail until the last pod that goes has gone.
func (b *beside) under(what, address string, do func()) {
	b.t.Helper()
	kept := b.command("loadstone", "load", address+"/student/{id}", "--feed", "id=uniform:1..1000", "--rate", "100/s", "--duration", "15m", "--quiet", "--json", "kept.json")
	b.must(kept.Start())
	defer kept.Process.Kill() //nolint:errcheck // it has ended, unless the test has failed
	asked := b.knock(address + "/student/1")
	time.Sleep(time.Second)
	began := time.Now()
	do()
	b.gone()
	took := time.Since(began).Seconds()
	b.must(kept.Process.Signal(os.Interrupt))
	_ = kept.Wait() // status 1: it was stopped
	requests, failed := asked()
	b.t.Logf("%s: %.1f s, a new connection for each of %d requests: %d failed", what, took, requests, len(failed))
	if requests == 0 || len(failed) > 0 {
		b.t.Errorf("%s: %d of %d requests by new connections failed: %v\n%s", what, len(failed), requests, failed, b.state())
	}
	var sum struct {
		Requests, Failed int
		Errors           map[string]any
		Status           map[string]int
		Latency          struct{ Response struct{ P99, Max float64 } }
	}
	text, err := os.ReadFile(b.path("kept.json"))
	b.must(err)
	b.must(json.Unmarshal(text, &sum))
	l := sum.Latency.Response
	b.t.Logf("%s: connections that are kept, %d requests: %d failed, 99 %% within %.1f ms, the slowest %.0f ms", what, sum.Requests, sum.Failed, l.P99, l.Max)
	if sum.Requests == 0 || sum.Failed > 0 || sum.Status["200"] != sum.Requests {
		b.t.Errorf("%s: %d of %d requests failed: %v, answers %v\n%s", what, sum.Failed, sum.Requests, sum.Errors, sum.Status, b.state())
	}
}

// knock makes a request by a connection of its own fifty times a second, until what it returns is called.
func (b *beside) knock(url string) func() (requests int, failed []error) {
	clients := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	stop, done := make(chan struct{}), make(chan struct{})
	var requests int
	var failed []error
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-stop:
				return
			}
			requests++
			answer, err := clients.Get(url)
			if err == nil {
				_, err = io.Copy(io.Discard, answer.Body)
				err = errors.Join(err, answer.Body.Close())
				if answer.StatusCode != http.StatusOK {
					err = errors.Join(err, errors.New(answer.Status))
				}
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", time.Now().Format(time.TimeOnly), err))
			}
		}
	}()
	return func() (int, []error) {
		close(stop)
		<-done
		return requests, failed
	}
}

// gone waits until no pod is about to go.
func (b *beside) gone() {
	b.t.Helper()
	b.until("pods that go", func(ctx context.Context) error {
		list, err := b.CoreV1().Pods(b.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if list.Items[i].DeletionTimestamp != nil {
				return errors.New(list.Items[i].Name + " is going")
			}
		}
		return nil
	})
}

// servers waits until so many pods of a Deployment, and no others, are ready and of its latest form.
func (b *beside) servers(name string, want int32) {
	b.t.Helper()
	b.until(fmt.Sprintf("%d servers", want), func(ctx context.Context) error {
		d, err := b.AppsV1().Deployments(b.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := &d.Status; s.ObservedGeneration != d.Generation || *d.Spec.Replicas != want || s.Replicas != want || s.UpdatedReplicas != want || s.AvailableReplicas != want {
			return fmt.Errorf("it is %+v", d.Status)
		}
		return nil
	})
}

// pods are those of a name space by their node.
func (b *beside) pods() (nodes map[string][]corev1.Pod) {
	b.t.Helper()
	list, err := b.CoreV1().Pods(b.namespace).List(b.t.Context(), metav1.ListOptions{})
	b.must(err)
	nodes = map[string][]corev1.Pod{}
	for _, pod := range list.Items {
		nodes[pod.Spec.NodeName] = append(nodes[pod.Spec.NodeName], pod)
	}
	return nodes
}

const externalValues = `
mode: external
existingSecret: results-service
access: open
postgres: {host: ` + outside + `, sslmode: disable}
redis: {host: ` + outside + `}
fill: {enabled: true, existingSecret: results-owner, students: 1000}
api: {resources: {requests: {cpu: 50m, memory: 64M}, limits: {memory: 256M}}}
`

// TestClusterServesWhileItChanges has the form with stores of its own serve while everything is done to it that happens to
// a release, and wants no request to fail.
func TestClusterServesWhileItChanges(t *testing.T) {
	b := inCluster(t, "results-day")
	b.run("loadstone", "results", "secrets", "--owner", "owner", "--service", "service")
	password, err := os.ReadFile(b.path("owner/password"))
	b.must(err)
	b.postgres(string(password), "results")
	b.redis(b.path("service/redis.acl"))
	b.run("loadstone", "results", "roles", "--store", "postgres://postgres@"+outside+"/results?sslmode=disable", "--owner", "owner", "--service", "service")
	for _, who := range []string{"owner", "service"} {
		b.run("kubectl", "create", "secret", "generic", "results-"+who, "--from-file="+who)
	}
	b.write("values.yaml", externalValues, 0o644)

	const name = "results-api"
	b.run("helm", "install", "results", "deploy/helm/results", "--values", "values.yaml", "--wait")
	b.servers(name, 3) // as the autoscaler has it
	service, err := b.CoreV1().Services(b.namespace).Get(t.Context(), name, metav1.GetOptions{})
	b.must(err)
	address := "http://" + net.JoinHostPort(service.Spec.ClusterIP, "8080")
	upgrade := func(set string) func() {
		return func() {
			b.run("helm", "upgrade", "results", "deploy/helm/results", "--reuse-values", "--set-string", set, "--wait")
		}
	}
	before := b.pods()
	b.under("an upgrade", address, upgrade("api.podAnnotations.again=1"))
	b.servers(name, 3)
	for _, pods := range b.pods() {
		for i := range pods {
			if slices.ContainsFunc(slices.Concat(before["node1"], before["node2"]), func(p corev1.Pod) bool { return p.UID == pods[i].UID }) {
				t.Errorf("%s is as before the upgrade", pods[i].Name)
			}
		}
	}
	b.under("a server more", address, func() {
		b.run("helm", "upgrade", "results", "deploy/helm/results", "--reuse-values", "--set", "api.autoscaling.minReplicas=4", "--wait")
		b.servers(name, 4)
	})
	b.under("without an autoscaler", address, func() {
		b.run("helm", "upgrade", "results", "deploy/helm/results", "--reuse-values", "--set", "api.autoscaling.enabled=false,api.replicas=2", "--wait")
		b.servers(name, 2)
	})
	b.under("back to the first", address, func() {
		b.run("helm", "rollback", "results", "1", "--wait")
		b.servers(name, 3)
	})
	b.under("a node that is emptied", address, func() { b.empty(name) })
	b.run("helm", "uninstall", "results", "--wait")
	b.nothingIsLeft("secrets/results-owner", "secrets/results-service")
}

// empty drains the node with the most pods, and wants all but one to be ready all the time.
func (b *beside) empty(name string) {
	b.t.Helper()
	nodes := b.pods()
	node := "node1"
	if len(nodes["node2"]) > len(nodes["node1"]) {
		node = "node2"
	}
	watched, err := b.AppsV1().Deployments(b.namespace).Watch(b.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	b.must(err)
	least := make(chan int32)
	go func() {
		l := int32(3)
		for e := range watched.ResultChan() {
			if d, ok := e.Object.(*appsv1.Deployment); ok {
				l = min(l, d.Status.ReadyReplicas)
			}
		}
		least <- l
	}()
	b.t.Cleanup(func() { b.runAtEnd("kubectl", "uncordon", node) })
	b.run("kubectl", "drain", node, "--delete-emptydir-data", "--ignore-daemonsets", "--timeout", soon.String())
	b.servers(name, 3)
	watched.Stop()
	if l := <-least; l < 2 {
		b.t.Errorf("%d servers were ready while %s was emptied, though one may be away", l, node)
	}
	if left := b.pods()[node]; len(left) > 0 {
		b.t.Errorf("%s still has %d pods", node, len(left))
	}
	b.t.Logf("%s had %d of the servers", node, len(nodes[node]))
}

// runAtEnd is run when the test's context is over.
func (b *beside) runAtEnd(argv ...string) {
	cmd := b.command(argv...)
	again := exec.Command(cmd.Path, argv[1:]...)
	again.Dir, again.Env = cmd.Dir, cmd.Env
	if out, err := again.CombinedOutput(); err != nil {
		b.t.Errorf("%s: %v:\n%s", strings.Join(argv, " "), err, out)
	}
}
