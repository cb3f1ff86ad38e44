package web

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/system/results"
)

// How browsers are asked to come back.
const (
	// firstWait and longestWait bound what a busy service asks for: each time
	// the double of the time before, so that those who wait do not keep it busy.
	firstWait   = 4 * time.Second
	longestWait = time.Minute
	// longestAuto is how long a page waits by itself. For more, the code would
	// have to lie in the cookie too long, and the reader will have gone.
	longestAuto = 2 * time.Minute
	// maxTries ends it: a page forgotten in a tab must not ask for ever.
	maxTries = 30
	// cookieMargin is how long the cookie outlives the wait: a slow network,
	// a phone that slept.
	cookieMargin = time.Minute

	minRetry, maxRetry = time.Second, 24 * time.Hour

	// longestSleep is how long a page about the embargo waits at most before it
	// looks again: times may change, and phones sleep.
	longestSleep = 30 * time.Minute
	// downWait is after when to try a service that is down.
	downWait = 30 * time.Second
)

const cookieName = "results_wait"

// jitter draws a time from 0 to below d, which is positive.
func (s *Site) jitter(d time.Duration) time.Duration {
	return time.Duration(s.cfg.Random(int64(d)))
}

// seconds are whole ones, rounded up: not before the time.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

func (s *Site) downRetry() string { return seconds(downWait + s.jitter(downWait)) }

// embargo says that results come out at an instant, which is so far away, and comes
// back after that.
func (s *Site) embargo(ctx *fasthttp.RequestCtx, e *edition, at time.Time, left time.Duration) {
	left = max(left, 0)
	// Everybody comes back for the same moment: over Spread after it. Before, only
	// those who had the page open for longestSleep do, at the times at which
	// they came.
	reload := left + time.Second + s.jitter(s.cfg.Spread)
	if left > longestSleep+s.cfg.Spread {
		reload = longestSleep - s.jitter(longestSleep/6)
	}
	s.show(ctx, e, pageEmbargo, &values{
		holeReload:   seconds(reload),
		holeMoment:   e.momentText(at),
		holeRelative: e.inText(left),
	})
	ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, seconds(reload))
}

// limited answers who asks too often. Who has sent id and code need not type them again.
func (s *Site) limited(ctx *fasthttp.RequestCtx, e *edition, wait time.Duration) {
	var in input
	switch path := string(ctx.URI().PathOriginal()); {
	case path == formPath && ctx.IsPost():
		if sent, p := readForm(ctx); p == pageForm {
			in = sent
		}
	case path == waitPath:
		in, _ = readCookie(ctx.Request.Header.Cookie(cookieName))
	}
	s.later(ctx, e, &in, wait, pageLimited)
}

// later asks to come back, by itself if that is soon and there is something to ask
// again. p is pageBusy or pageLimited; the one that waits by itself follows it.
func (s *Site) later(ctx *fasthttp.RequestCtx, e *edition, in *input, least time.Duration, p page) {
	delay := min(firstWait<<min(in.tries, 8), longestWait)
	delay = max(delay, min(max(least, minRetry), maxRetry))
	// A half more at most, and at least two seconds to spread over.
	delay += s.jitter(delay/2 + 2*time.Second)
	v := &values{holeReload: seconds(delay), holeRelative: e.inText(delay)}
	auto := in.id > 0 && delay <= longestAuto && in.tries < maxTries
	if auto {
		p++
	}
	s.show(ctx, e, p, v)
	ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, seconds(delay))
	if auto {
		s.remember(ctx, in, delay)
	} else {
		s.forget(ctx)
	}
}

// wait answers a browser that has waited. One that no longer has its cookie
// gets the form.
func (s *Site) wait(ctx *fasthttp.RequestCtx, e *edition) {
	if !ctx.IsGet() {
		s.notAllowed(ctx, e, "GET")
		return
	}
	in, ok := readCookie(ctx.Request.Header.Cookie(cookieName))
	s.forget(ctx)
	if !ok {
		ctx.Response.SetStatusCode(fasthttp.StatusSeeOther)
		ctx.Response.Header.Set(fasthttp.HeaderLocation, formPath+"?lang="+e.code)
		ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
		return
	}
	s.answer(ctx, e, &in)
}

// remember keeps id and code for the next try, in the browser: TRIES.SAVE.ID.CODE,
// the code in base64, for it may be anything.
func (s *Site) remember(ctx *fasthttp.RequestCtx, in *input, delay time.Duration) {
	save := "0"
	if in.save {
		save = "1"
	}
	value := strconv.Itoa(in.tries+1) + "." + save + "." + strconv.FormatInt(in.id, 10) + "." +
		base64.RawURLEncoding.EncodeToString(in.code)
	s.setCookie(ctx, value, delay+cookieMargin)
}

// forget makes the browser drop what it keeps.
func (s *Site) forget(ctx *fasthttp.RequestCtx) { s.setCookie(ctx, "", 0) }

func (s *Site) setCookie(ctx *fasthttp.RequestCtx, value string, age time.Duration) {
	// Written here, for fasthttp leaves Max-Age=0 out. The header replaces one
	// that was set before.
	cookie := cookieName + "=" + value + "; Path=" + waitPath + "; Max-Age=" + seconds(age) + "; HttpOnly; SameSite=Strict"
	if s.cfg.SecureCookie(ctx) {
		cookie += "; Secure"
	}
	ctx.Response.Header.DelCookie(cookieName)
	ctx.Response.Header.Set(fasthttp.HeaderSetCookie, cookie)
}

// readCookie reads what remember wrote. Anybody may have written something else.
func readCookie(raw []byte) (input, bool) {
	if len(raw) == 0 || len(raw) > maxForm {
		return input{}, false
	}
	parts := strings.Split(string(raw), ".")
	if len(parts) != 4 {
		return input{}, false
	}
	tries, err := strconv.ParseUint(parts[0], 10, 8)
	if err != nil || tries == 0 || tries > maxTries {
		return input{}, false
	}
	id, err := results.ParseID(parts[2])
	if err != nil {
		return input{}, false
	}
	code, err := base64.RawURLEncoding.DecodeString(parts[3])
	if err != nil || len(code) == 0 || len(code) > maxCode {
		return input{}, false
	}
	return input{id: id, idText: parts[2], code: code, save: parts[1] == "1", tries: int(tries)}, true
}
