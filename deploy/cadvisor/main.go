// Command cadvisor reports what control groups use, as Prometheus metrics. It is
// cAdvisor (github.com/google/cadvisor) as a library with a small main, for
// machines on which its image cannot run: the process driver starts it for the
// image gcr.io/cadvisor/cadvisor, and it has the same metrics and those of the
// image's flags that matter here.
//
// It is a module of its own, so that what cAdvisor depends on is no dependency
// of Loadstone's. scripts/setup builds it:
//
//	cd deploy/cadvisor && go build -o ../../.tools/bin/cadvisor .
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/cadvisor/cache/memory"
	"github.com/google/cadvisor/container"
	_ "github.com/google/cadvisor/container/docker/install" // names Docker's containers where there is a Docker
	v2 "github.com/google/cadvisor/info/v2"
	"github.com/google/cadvisor/manager"
	"github.com/google/cadvisor/metrics"
	"github.com/google/cadvisor/utils/sysfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/clock"
)

// kept is how long figures are kept; a scrape needs the latest only.
const kept = 2 * time.Minute

// stopWithin bounds the wait for a scrape under way when the program is asked
// to end.
const stopWithin = 2 * time.Second

// included are the kinds of metrics that the dashboards and the rules use. The
// others cost a reading of many files per group and scrape.
var included = container.MetricSet{
	container.CpuUsageMetrics:    {},
	container.MemoryUsageMetrics: {},
	container.DiskIOMetrics:      {},
	container.OOMMetrics:         {},
}

// options are this program's own flags. The library adds its own, of which
// -housekeeping_interval and -docker matter.
type options struct {
	listenIP string
	port     int
	beside   bool
	labels   string
	version  bool
}

func main() {
	var o options
	flag.StringVar(&o.listenIP, "listen_ip", "", "IP address to listen on; all if empty")
	flag.IntVar(&o.port, "port", 8080, "port to listen on")
	flag.BoolVar(&o.beside, "beside", false, "report only the control groups that lie beside this process's own, and the root")
	flag.StringVar(&o.labels, "whitelisted_container_labels", "com.docker.compose.service,com.docker.compose.container-number", "labels of containers to report, separated by commas")
	flag.BoolVar(&o.version, "version", false, "print the library's version and end")
	flag.Parse()
	if o.version {
		_, _ = fmt.Println("cAdvisor", libraryVersion()) // nobody to tell if it fails
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cadvisor:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, o options) error {
	prefixes := []string{"/"}
	if o.beside {
		var err error
		if prefixes, err = besideOwn("/proc/self/cgroup"); err != nil {
			return err
		}
	}
	// Never slower for groups that are idle: they may be those that stopped.
	steady := false
	m, err := manager.New(memory.New(kept, nil), sysfs.NewRealSysFs(),
		manager.HousekeepingConfig{Interval: manager.HousekeepingConfigFlags.Interval, AllowDynamic: &steady},
		included, http.DefaultClient, prefixes, nil, "", 0)
	if err != nil {
		return fmt.Errorf("look at the machine: %w", err)
	}
	if err := m.Start(); err != nil {
		return fmt.Errorf("look for control groups: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		metrics.NewPrometheusCollector(m, metrics.BaseContainerLabels(strings.Split(o.labels, ",")), included, clock.RealClock{}, v2.RequestOptions{IdType: v2.TypeName, Count: 1, Recursive: true}),
		metrics.NewPrometheusMachineCollector(m, included),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return errors.Join(serve(ctx, net.JoinHostPort(o.listenIP, strconv.Itoa(o.port)), registry), m.Stop())
}

// serve answers /metrics and /healthz until ctx ends.
func serve(ctx context.Context, address string, registry prometheus.Gatherer) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok")) // a client that has gone is no news
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServe() }()
	select {
	case err := <-served:
		return fmt.Errorf("listen on %s: %w", address, err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		return fmt.Errorf("stop serving: %w", err)
	}
	<-served
	return nil
}

// libraryVersion is the version of cAdvisor that this program was built with.
func libraryVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range info.Deps {
		if module.Path == "github.com/google/cadvisor" {
			return module.Version
		}
	}
	return "unknown"
}

// besideOwn are the prefixes of the control groups beside this process's own:
// with /run/cadvisor-1 it is /run/. A process in the root group has all beside
// it. In version 1 a process has a group in each hierarchy, and they need not lie
// at the same place; what is in one only has no figures of the others.
func besideOwn(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("find the own control group: %w", err)
	}
	var prefixes []string
	var unified string
	for line := range strings.Lines(string(text)) {
		// 4:cpu,cpuacct:/path in version 1, 0::/path in version 2
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		prefix := strings.TrimSuffix(path.Dir(path.Clean("/"+parts[2])), "/") + "/"
		for controller := range strings.SplitSeq(parts[1], ",") {
			if controller == "cpu" || controller == "memory" {
				prefixes = append(prefixes, prefix)
			}
		}
		if parts[1] == "" {
			unified = prefix
		}
	}
	if len(prefixes) == 0 && unified != "" {
		prefixes = append(prefixes, unified)
	}
	if len(prefixes) == 0 {
		return nil, fmt.Errorf("%s names no control group of a CPU or of memory", file)
	}
	slices.Sort(prefixes)
	return slices.Compact(prefixes), nil
}
