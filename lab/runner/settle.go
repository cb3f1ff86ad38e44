package runner

import (
	"context"
	"net/http"
	"time"

	"loadstone/block/pause"
	"loadstone/lab/probe"
	"loadstone/lab/series"
	"loadstone/lab/topology"
)

const (
	// settleWithin bounds the wait for queues to be worked off after a piece of
	// load. It is as long as a search can spare: a backlog that needs longer goes
	// into what is measured next, and the verdict says that it was there.
	settleWithin = 4 * time.Second
	// settleEvery is the time between two looks. There is no load meanwhile.
	settleEvery = 100 * time.Millisecond
	// stuckAfter is how long nothing may get less before the wait is given up: what
	// waits may be of a kind that is never empty.
	stuckAfter = time.Second
	// longFlush is how long a queue has to take for the probe to be given two more
	// scrapes, so that the end of it is seen.
	longFlush = 500 * time.Millisecond
)

// backlog is what tells how much waits in one instance.
type backlog struct {
	endpoint string
	match    []func(series string) bool
}

func backlogs(instances []topology.Instance) []backlog {
	var out []backlog
	for _, in := range instances {
		b := backlog{endpoint: in.MetricsURL}
		for _, r := range in.Resources {
			metric := map[string]string{topology.Queue: r.Depth, topology.Stage: r.Lag}[r.Kind]
			if s, err := series.ParseSelector(metric); err == nil {
				b.match = append(b.match, s.Matches)
			}
		}
		if len(b.match) > 0 && b.endpoint != "" {
			out = append(out, b)
		}
	}
	return out
}

// settle waits after a piece of load until the queues and stages that the Compose
// file declares have nothing to do, so that what is measured next begins with empty
// ones, and so that the probe sees what was buffered. Where none is
// declared, or they are empty, it takes no time.
func settle(ctx context.Context, instances []topology.Instance) {
	all := backlogs(instances)
	if len(all) == 0 {
		return
	}
	client := metricsClient()
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	began := time.Now()
	least, since := 0.0, began
	for {
		n, ok := waiting(ctx, client, all)
		now := time.Now()
		switch {
		case !ok:
			return // who does not tell cannot be waited for
		case n <= 0:
			if now.Sub(began) >= longFlush {
				pause.For(ctx, 2*probe.DefaultMetricsInterval)
			}
			return
		case least == 0 || n < least:
			least, since = n, now
		case now.Sub(since) >= stuckAfter:
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func waiting(ctx context.Context, client *http.Client, all []backlog) (sum float64, ok bool) {
	for _, b := range all {
		values, err := probe.Fetch(ctx, client, b.endpoint)
		if err != nil {
			return 0, false
		}
		for _, match := range b.match {
			n, told := series.Total(values, match)
			if !told {
				return 0, false
			}
			sum += n
		}
	}
	return sum, true
}
