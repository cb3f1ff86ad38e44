package httpapi

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/system/results/httpapi/guard"
)

// caller is who asks, and when. The clock is read once for a request.
type caller struct {
	from guard.Address // only with limits
	now  time.Time     // only with limits or an embargo
}

// admit finds out who asks and reports whether the request may go on. If not,
// it has been answered.
func (a *API) admit(ctx *fasthttp.RequestCtx) (caller, bool) {
	var who caller
	if a.guard == nil && a.embargo == nil {
		return who, true
	}
	who.now = a.now()
	if a.guard == nil {
		return who, true
	}
	who.from = guard.Group(client(ctx, a.guard.Proxies()))
	if wait := a.guard.Request(who.from, who.now); wait > 0 {
		a.refuse(ctx, rateLimited, wait)
		return who, false
	}
	return who, true
}

// client returns the address that a request is from; the zero Addr if the
// connection has none.
func client(ctx *fasthttp.RequestCtx, proxies guard.Proxies) netip.Addr {
	tcp, ok := ctx.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	peer, _ := netip.AddrFromSlice(tcp.IP)
	if !proxies.Trusts(peer) {
		return peer
	}
	return proxies.Client(peer, ctx.Request.Header.PeekAll(headerForwarded))
}

// tries returns how long the caller must wait before a code for the id is looked
// at. Without a code there is nothing to try.
func (a *API) tries(id int64, given []byte, who caller) time.Duration {
	if a.guard == nil || len(given) == 0 {
		return 0
	}
	return a.guard.Locked(id, who.from, who.now)
}

// judge counts what came of the code and returns how long the caller must wait
// before it may be told; 0 if it may be told now.
func (a *API) judge(id int64, given []byte, right bool, who caller) time.Duration {
	if a.guard == nil || len(given) == 0 {
		return 0
	}
	return a.guard.Judge(id, who.from, right, who.now)
}

// refuse answers a request that would be answered after the wait.
func (a *API) refuse(ctx *fasthttp.RequestCtx, why reason, wait time.Duration) {
	a.metrics.refused[why].Inc()
	switch why {
	case rateLimited:
		failFor(ctx, fasthttp.StatusTooManyRequests, bodyRateLimited, wait)
	case lockedOut:
		failFor(ctx, fasthttp.StatusTooManyRequests, bodyLockedOut, wait)
	default:
		failFor(ctx, fasthttp.StatusForbidden, a.embargo.body, wait)
	}
}

// embargo keeps results back until an instant.
type embargo struct {
	until time.Time
	body  []byte
	over  atomic.Bool
}

func newEmbargo(until time.Time) *embargo {
	until = until.Round(0).UTC() // wall clock, for replicas share that and nothing else
	at := until.Format(time.RFC3339Nano)
	return &embargo{until: until, body: []byte(`{"error":{"code":"` + reasonNames[embargoed] +
		`","message":"results are published at ` + at + `","publish_at":"` + at + `"}}`)}
}

// wait returns the time that is left, 0 from the instant on. Once it was 0 it
// stays 0, even if the clock is set back.
func (e *embargo) wait(now time.Time) time.Duration {
	if e.over.Load() {
		return 0
	}
	left := e.until.Sub(now)
	if left > 0 {
		return left
	}
	e.over.Store(true)
	return 0
}
