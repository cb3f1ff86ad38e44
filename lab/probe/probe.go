// Package probe watches a system while load runs: what its hosts say of every
// instance and of themselves (package host), and the instances' Prometheus
// endpoints. What has no such endpoint and is asked in its own protocol comes from
// its Sources, which are in the packages below this one.
//
// It only collects: counters are written as they are read, and Over and package
// series turn them into figures for a span of time afterwards. Its own cost is
// collected with them.
package probe

import (
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"loadstone/lab/host"
	"loadstone/lab/host/packets"
)

// The names of the files of what Run hands to Config.Write.
const (
	HopsFile    = "hops.jsonl"
	SamplesFile = "samples.jsonl"
	MetricsFile = "metrics.jsonl"
)

// Endpoint is where an instance publishes Prometheus metrics.
type Endpoint struct {
	Instance string
	// URL is asked for each time: an instance that is started again may have another address.
	URL func() string
}

// Config says what to watch and how often.
type Config struct {
	Hosts     []host.Host
	Endpoints []Endpoint
	// Sources are asked once a second each, and less often if they are slow.
	Sources []Source
	// Interval is the time between samples of CPU and memory; MetricsInterval
	// that between scrapes of one endpoint, if there are no more than a few: of more
	// each is scraped less often, so that watching a large system costs no more.
	Interval        time.Duration
	MetricsInterval time.Duration
	// Write keeps one record, a *host.Sample, a *Scrape or a *packets.Slice. Calls do not
	// overlap.
	Write func(any) error
	// Unseen is told why it is not seen how long requests wait between instances. It may be
	// nil.
	Unseen func(why string)
}

// Default intervals: ten samples a second cost a fraction of a percent of a
// core. A scrape also costs the instance that answers it (about half a
// millisecond of CPU for a Go service), so those are fewer.
const (
	DefaultInterval        = 100 * time.Millisecond
	DefaultMetricsInterval = 250 * time.Millisecond
)

// fewEndpoints is how many are scraped at MetricsInterval each.
const fewEndpoints = 4

// metricsInterval is that of one of so many endpoints.
func (c Config) metricsInterval(endpoints int) time.Duration {
	return c.MetricsInterval * time.Duration(max(endpoints, fewEndpoints)) / fewEndpoints
}

// Run watches until ctx ends and returns nil then. A target that cannot be
// read is an error; a scrape that fails is not, it is only missing.
func Run(ctx context.Context, c Config) error {
	records := make(chan any, 64) // full only if the disk stalls; then sampling waits
	g, ctx := errgroup.WithContext(ctx)
	readers, readersCtx := errgroup.WithContext(ctx)
	for _, h := range c.Hosts {
		readers.Go(func() error {
			return h.Watch(readersCtx, c.Interval, func(s *host.Sample) error {
				select {
				case records <- s:
				case <-readersCtx.Done():
				}
				return nil
			})
		})
	}
	for _, h := range c.Hosts {
		readers.Go(func() error { return hops(readersCtx, c, h, records) })
	}
	if len(c.Hosts) == 0 {
		c.unseen("the machine that the instances run on is not seen from here")
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, DisableCompression: true}}
	every := c.metricsInterval(len(c.Endpoints))
	for _, e := range c.Endpoints {
		readers.Go(func() error { return scrape(readersCtx, client, e, every, records) })
	}
	for _, s := range c.Sources {
		readers.Go(func() error { return ask(readersCtx, s, records) })
	}
	g.Go(func() error {
		defer close(records)
		defer client.CloseIdleConnections()
		return readers.Wait()
	})
	var failed error
	for r := range records {
		if failed == nil {
			failed = c.Write(r)
		}
	}
	return errors.Join(g.Wait(), failed)
}

// observer is a host that sees how long requests wait between its instances.
type observer interface {
	Hops(ctx context.Context, emit func(*packets.Slice) error) error
}

// hops watches how long requests wait, where that can be seen. Where it cannot, that is
// told, and everything else goes on.
func hops(ctx context.Context, c Config, h host.Host, records chan<- any) error {
	why := "the instances do not talk over this machine's loopback interface"
	if o, ok := h.(observer); ok {
		err := o.Hops(ctx, func(s *packets.Slice) error {
			select {
			case records <- s:
			case <-ctx.Done():
			}
			return nil
		})
		if err == nil {
			return nil
		}
		why = err.Error()
	}
	c.unseen(why)
	return nil
}

func (c Config) unseen(why string) {
	if c.Unseen != nil {
		c.Unseen(why)
	}
}

func scrape(ctx context.Context, client *http.Client, e Endpoint, every time.Duration, records chan<- any) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if values, err := Fetch(ctx, client, e.URL()); err == nil {
			select {
			case records <- &Scrape{At: time.Now(), Instance: e.Instance, Values: values}:
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
