package probe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"loadstone/lab/host"
	"loadstone/lab/host/packets"
)

// blind is a machine that does not see what passes between its instances.
type blind struct{ host.Host }

// sighted sees a slice and then no more, for the reason that it has.
type sighted struct {
	host.Host
	then error
}

func (s sighted) Hops(ctx context.Context, emit func(*packets.Slice) error) error {
	if err := emit(&packets.Slice{Packets: 7}); err != nil || s.then != nil {
		return errors.Join(err, s.then)
	}
	<-ctx.Done()
	return nil
}

// What is seen of waiting is kept. Where it is not seen that is told, and everything else
// goes on.
func TestWaitingIsSeenOrItIsToldWhyNot(t *testing.T) {
	for name, c := range map[string]struct {
		hosts  []host.Host
		slices int
		why    string
	}{
		"seen":        {[]host.Host{sighted{Host: self()}}, 1, ""},
		"not allowed": {[]host.Host{sighted{self(), packets.ErrNotAllowed}}, 1, "CAP_NET_RAW"},
		"containers":  {[]host.Host{blind{self()}}, 0, "do not talk over this machine's loopback interface"},
		"no machine":  {nil, 0, "is not seen from here"},
	} {
		ctx, stop := context.WithCancel(t.Context())
		var why string
		slices, samples := 0, 0
		enough := func() {
			if slices == c.slices && (samples > 2 || len(c.hosts) == 0) && (why != "" || c.why == "") {
				stop()
			}
		}
		told := make(chan string, 1)
		config := Config{Hosts: c.hosts, Interval: time.Millisecond, MetricsInterval: time.Millisecond, Unseen: func(w string) { told <- w }}
		config.Write = func(v any) error {
			switch v.(type) {
			case *packets.Slice:
				slices++
			case *host.Sample:
				samples++
			}
			select {
			case why = <-told:
			default:
			}
			enough()
			return nil
		}
		if len(c.hosts) == 0 {
			stop() // nothing is written
		}
		err := Run(ctx, config)
		stop()
		select {
		case why = <-told:
		default:
		}
		if err != nil || slices != c.slices || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%s: got %v, %d slices and %q, want %d and %q", name, err, slices, why, c.slices, c.why)
		}
	}
}
