package httpapi

import (
	"bytes"
	"net"
	"net/netip"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/forwarded"
	"loadstone/system/results"
	"loadstone/system/results/httpapi/guard"
)

// caller is who asks, and when. The clock is read once for a request.
type caller struct {
	from guard.Address // only with limits
	now  time.Time     // only with limits
}

// identify finds out who asks.
func (a *API) identify(ctx *fasthttp.RequestCtx) (who caller) {
	if a.guard == nil {
		return who
	}
	who.now = a.now()
	who.from = guard.Group(client(ctx, a.proxies))
	return who
}

// admit counts a request and returns how long its client must wait before it may ask;
// 0 if it may now.
func (a *API) admit(who caller) time.Duration {
	if a.guard == nil {
		return 0
	}
	wait := a.guard.Request(who.from, who.now)
	if wait > 0 {
		a.metrics.refused[results.ErrRateLimited].Inc()
	}
	return wait
}

// Admit counts a request that Handle does not answer, whatever it is for, and returns
// how long its client must wait before it may ask; 0 if it may now.
func (a *API) Admit(ctx *fasthttp.RequestCtx) time.Duration { return a.admit(a.identify(ctx)) }

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
func client(ctx *fasthttp.RequestCtx, proxies forwarded.Proxies) netip.Addr {
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
