package nginx_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"loadstone/block/forwarded"
	"loadstone/block/servertest"
	"loadstone/block/service"
	"loadstone/system/results"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
	"loadstone/system/results/serve"
	"loadstone/system/results/snapshot"
)

// The variables that make this test binary a replica of the service.
const (
	replicaAddress = "RESULTS_TEST_REPLICA"
	replicaStore   = "RESULTS_TEST_STORE"
	replicaAccess  = "RESULTS_TEST_ACCESS"
	replicaProxy   = "RESULTS_TEST_PROXY" // turns the limits on
)

func TestMain(m *testing.M) {
	if os.Getenv(replicaAddress) != "" {
		os.Exit(beReplica())
	}
	os.Exit(m.Run())
}

// beReplica serves until it is told to stop.
func beReplica() int {
	c := serve.DefaultConfig()
	c.Listen, c.AdminListen = os.Getenv(replicaAddress), "127.0.0.1:0"
	c.Store, c.Access = os.Getenv(replicaStore), httpapi.Access(os.Getenv(replicaAccess))
	c.Drain = 100 * time.Millisecond
	if proxy := os.Getenv(replicaProxy); proxy != "" {
		limits := guard.DefaultConfig()
		proxies, err := forwarded.Parse(proxy)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		c.Limits, c.Proxies = &limits, proxies
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := serve.Run(ctx, c, slog.New(slog.DiscardHandler), nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

const students = 1000

// published is a snapshot with made-up students.
func published(tb testing.TB) (path string, g *results.Generator) {
	tb.Helper()
	g, err := results.NewGenerator(1, students)
	if err != nil {
		tb.Fatal(err)
	}
	path = filepath.Join(tb.TempDir(), "results.snapshot")
	if err := snapshot.Build(tb.Context(), path, g, func(int64, int64) {}); err != nil {
		tb.Fatal(err)
	}
	return path, g
}

// replica is a process of the service.
type replica struct {
	*servertest.Process

	address string
}

// startReplica starts one and waits until it answers.
func startReplica(tb testing.TB, at, store string, access httpapi.Access) *replica {
	tb.Helper()
	r := &replica{address: at, Process: servertest.New(tb, servertest.Program{
		Command: []string{os.Args[0]}, Log: filepath.Join(tb.TempDir(), "log"),
		Env:   append(os.Environ(), replicaAddress+"="+at, replicaStore+"=snapshot:"+store, replicaAccess+"="+string(access)),
		Ready: func(ctx context.Context) error { return service.Health(ctx, "http://"+at+"/readyz") },
	})}
	r.Start()
	return r
}

// fake is an upstream that answers as a test wants.
type fake struct {
	address  string
	requests atomic.Int64
	server   *http.Server
	stop     sync.Once
}

func startFake(tb testing.TB, handler http.HandlerFunc) *fake {
	tb.Helper()
	f := &fake{address: address()}
	listener, err := net.Listen("tcp", f.address)
	if err != nil {
		tb.Fatal(err)
	}
	f.server = &http.Server{ReadHeaderTimeout: deadline, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // who dies next has read all of it
		handler(w, r)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.server.Serve(listener) // until it is closed
	}()
	tb.Cleanup(func() {
		f.end()
		<-done
	})
	return f
}

func (f *fake) end() { f.stop.Do(func() { _ = f.server.Close() }) }

// dies closes the connection in place of an answer.
func dies(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// says answers with a text and headers, in pairs.
func says(status int, text string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// certificate makes one for the test's address.
func certificate(tb testing.TB, dir string) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(host())}, IsCA: true, BasicConstraintsValid: true,
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	write(tb, filepath.Join(dir, "tls.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public})))
	write(tb, filepath.Join(dir, "tls.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

// from is a client at an address of its own.
func from(source string) *http.Client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
	return &http.Client{Timeout: deadline, Transport: &http.Transport{
		DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request, "GET http://…", over client, nil for one with its own
// connection. Headers are in pairs.
func ask(tb testing.TB, client *http.Client, request string, body io.Reader, headers ...string) answer {
	tb.Helper()
	got, err := try(tb.Context(), client, request, body, headers...)
	if err != nil {
		tb.Fatal(err)
	}
	return got
}

func try(ctx context.Context, client *http.Client, request string, body io.Reader, headers ...string) (answer, error) {
	method, url, _ := strings.Cut(request, " ")
	if client == nil {
		client = &http.Client{Timeout: deadline, Transport: &http.Transport{DisableKeepAlives: true}}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}
