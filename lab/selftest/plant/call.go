package plant

import (
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// callTimeout bounds a call to another plant. A plant at its limit has
	// dozens of requests waiting, each for milliseconds: one that takes this
	// long has been lost.
	callTimeout = 10 * time.Second
	// maxConns is above any number of requests that a load keeps under way, so
	// that connections are never a pool that nobody planted.
	maxConns = 4096
)

// caller calls one downstream service.
type caller struct {
	config  Call
	clients []*fasthttp.HostClient
	next    atomic.Uint64
}

func newCaller(c Call) *caller {
	out := &caller{config: c}
	for _, host := range split(c.Hosts) {
		out.clients = append(out.clients, &fasthttp.HostClient{
			Addr: net.JoinHostPort(host, strconv.Itoa(c.Port)), MaxConns: maxConns,
			ReadTimeout: callTimeout, WriteTimeout: callTimeout,
			NoDefaultUserAgentHeader: true, DisableHeaderNamesNormalizing: true,
		})
	}
	return out
}

// call makes the visits of one request and leaves the last one's answer in to.
func (c *caller) call(key uint64, to *fasthttp.Response) error {
	req := fasthttp.AcquireRequest()
	defer fasthttp.ReleaseRequest(req)
	for range c.config.Visits {
		at := key
		if !c.config.ByKey {
			at = c.turn()
		}
		client := c.clients[at%uint64(len(c.clients))]
		req.SetRequestURI("http://" + client.Addr + "/?key=" + strconv.FormatUint(key, 10))
		to.Reset()
		if err := client.Do(req, to); err != nil {
			return fmt.Errorf("call %s: %w", client.Addr, err)
		}
		if status := to.StatusCode(); status != fasthttp.StatusOK {
			return fmt.Errorf("call %s: status %d, want 200", client.Addr, status)
		}
	}
	return nil
}

// turn is whose turn it is.
func (c *caller) turn() uint64 {
	const of = 4
	n := c.next.Add(1)
	if c.config.Uneven == 0 {
		return n
	}
	if n%of < uint64(c.config.Uneven) {
		return 0
	}
	return n / of
}

func (c *caller) close() {
	for _, client := range c.clients {
		client.CloseIdleConnections()
	}
}
