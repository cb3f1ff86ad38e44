package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestTheGroupsBesideItsOwn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"4:cpu,cpuacct:/run-1/cadvisor-1\n0::/other\n":                        "/run-1/",
		"4:cpu:/run-1/cadvisor-1\n3:memory:/a/b/run-1/cadvisor-1\n1:pids:/\n": "/a/b/run-1/ /run-1/",
		"0::/run-1/cadvisor-1\n":                                              "/run-1/",
		"0::/\n":                                                              "/",
		"0::/session\n":                                                       "/",
		"1:pids:/x\nrubbish\n":                                                "",
	} {
		file := filepath.Join(t.TempDir(), "cgroup")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := besideOwn(file)
		if strings.Join(got, " ") != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
	if _, err := besideOwn("/nonexistent"); err == nil {
		t.Error("got no error without a file")
	}
}

func TestServesUntilItIsToldToEnd(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "something", Help: "Something."})
	registry.MustRegister(gauge)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	pid := os.Getpid()
	address := fmt.Sprintf("127.83.%d.%d:28971", pid>>8&255, pid&255) // this process's own
	go func() { ended <- serve(ctx, address, registry) }()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // so that no connection is open at the end
	var body string
	for deadline := time.Now().Add(2 * time.Minute); body == "" && time.Now().Before(deadline); {
		resp, err := client.Get("http://" + address + "/metrics")
		if err != nil {
			continue
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err == nil {
			body = string(text)
		}
	}
	if !strings.Contains(body, "\nsomething 0\n") {
		t.Errorf("got %q", body)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := serve(t.Context(), "256.0.0.1:1", registry); err == nil {
		t.Error("got no error for an address that cannot be")
	}
}
