package httpapi

import (
	"bytes"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
	"loadstone/system/results"
	"loadstone/system/results/httpapi/guard"
)

// caller is who asks, and when. The clock is read once for a request.
type caller struct {
	from guard.Address // only with limits
	now  time.Time     // only with limits or an embargo
}

// identify finds out who asks, and how long that client must wait before it may; 0
// if it may now.
func (a *API) identify(ctx *fasthttp.RequestCtx) (caller, time.Duration) {
	var who caller
	if a.guard == nil && a.embargo == nil {
		return who, 0
	}
	who.now = a.now()
	if a.guard == nil {
		return who, 0
	}
	who.from = guard.Group(client(ctx, a.proxies))
	return who, a.guard.Request(who.from, who.now)
}

// Secure reports whether the client reached us over HTTPS, as far as a proxy that
// is believed says so: X-Forwarded-Proto, whose last value is that proxy's.
func (a *API) Secure(ctx *fasthttp.RequestCtx) bool {
	tcp, ok := ctx.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return false
	}
	peer, _ := netip.AddrFromSlice(tcp.IP)
	if !a.proxies.Trusts(peer) {
		return false
	}
	said := ctx.Request.Header.Peek(headerForwardedProto)
	if comma := bytes.LastIndexByte(said, ','); comma >= 0 {
		said = said[comma+1:]
	}
	return bytes.EqualFold(bytes.TrimSpace(said), https)
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

// lockoutRemaining returns how long the caller must wait before a code for the id is looked
// at. Without a code there is nothing to try.
func (a *API) lockoutRemaining(id int64, given []byte, who caller) time.Duration {
	if a.guard == nil || len(given) == 0 {
		return 0
	}
	return a.guard.Locked(id, who.from, who.now)
}

// recordCode counts what came of the code and returns how long the caller must wait
// before it may be told; 0 if it may be told now.
func (a *API) recordCode(id int64, given []byte, right bool, who caller) time.Duration {
	if a.guard == nil || len(given) == 0 {
		return 0
	}
	return a.guard.Judge(id, who.from, right, who.now)
}

// embargo keeps results back until an instant.
type embargo struct {
	until time.Time
	over  atomic.Bool
}

func newEmbargo(until time.Time) *embargo {
	return &embargo{until: until.Round(0).UTC()} // wall clock, for replicas share that and nothing else
}

// failure is how a request is answered before the instant.
func (e *embargo) failure() *route.Failure {
	at := e.until.Format(time.RFC3339Nano)
	return answers[code(results.ErrEmbargoed)].WithBody([]byte(`{"error":{"code":"` + results.ErrEmbargoed.Code +
		`","message":"results are published at ` + at + `","publish_at":"` + at + `"}}`))
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
