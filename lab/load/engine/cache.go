package engine

import (
	"container/list"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"loadstone/lab/load/failure"
)

// cache is a virtual user's private HTTP cache (RFC 9111), as a browser or an app has
// one. It outlives iterations: the user comes back.
//
// An answer is kept if it is a whole 200 to a GET, if neither Cache-Control: no-store nor
// a Vary that cannot be looked at forbids it, and if there is something to use it by: a
// lifetime, or a validator. It is used without a request while it is fresh, and else asked
// about with its validator. Nothing is used that is stale, and no lifetime is guessed
// (RFC 9111, 4.2.2, allows that, and clients differ in it).
//
// # Size
//
// An answer counts as the bytes that it took on the wire, and its key. Of those that
// were used last as many are kept as fit. Bodies are kept as they came, where a step looks
// into one, and decoded each time: what a user can make the generator keep is what counts.
type cache struct {
	most    int64
	size    int64
	entries map[string]*list.Element // by key
	used    list.List                // of *stored; the last in front
	totals  *cacheTotals
}

// cacheTotals is what the caches of a scenario's users hold together.
type cacheTotals struct {
	size    atomic.Int64
	largest atomic.Int64 // the most that one of them held
}

// stored is an answer in a cache.
type stored struct {
	key        string
	size       int64
	freshUntil time.Duration
	condition  headerLine   // to ask with whether it still is the answer; empty if there is none
	vary       []headerLine // what the request had of the headers that the answer varies by
	hasBody    bool
	kept       captured
}

// headerLine is a header of a request or an answer.
type headerLine struct{ name, value string }

// ofCaching are the headers of answers that a cache needs.
func ofCaching() []string {
	return []string{"age", "cache-control", "date", "etag", "expires", "last-modified", "vary"}
}

// ofConditions are the headers of requests that answers are not kept of: their author has
// a cache in mind.
var ofConditions = []string{"if-none-match", "if-modified-since", "if-match", "if-unmodified-since", "if-range", "range", "cache-control", "pragma", "authorization"}

// cacheableRequest says whether answers to the step can come from a cache.
func (s *step) cacheableRequest() bool {
	return s.method == http.MethodGet && !s.hasBody && !slices.ContainsFunc(s.header, func(h headerField) bool {
		return slices.Contains(ofConditions, strings.ToLower(h.name))
	})
}

func newCache(most int64, totals *cacheTotals) *cache {
	return &cache{most: most, entries: map[string]*list.Element{}, totals: totals}
}

// get returns what there is for a key, nil for nothing.
func (c *cache) get(key string) *stored {
	e := c.entries[key]
	if e == nil {
		return nil
	}
	c.used.MoveToFront(e)
	return e.Value.(*stored)
}

// put keeps an answer, in place of the one before, and forgets those that do not fit beside it.
func (c *cache) put(s *stored) {
	c.remove(s.key)
	if s.size > c.most {
		return
	}
	for c.size+s.size > c.most {
		c.remove(c.used.Back().Value.(*stored).key)
	}
	c.entries[s.key] = c.used.PushFront(s)
	c.resize(s.size)
	for n, most := c.size, c.totals.largest.Load(); n > most && !c.totals.largest.CompareAndSwap(most, n); {
		most = c.totals.largest.Load()
	}
}

// remove forgets what there is for a key.
func (c *cache) remove(key string) {
	if e := c.entries[key]; e != nil {
		delete(c.entries, key)
		c.resize(-c.used.Remove(e).(*stored).size)
	}
}

func (c *cache) resize(by int64) {
	c.size += by
	c.totals.size.Add(by)
}

// cacheKey is what answers to the step's request are kept by: its host, where that is not the
// load target's (they are one), and its target. Values have been drawn.
func (u *user) cacheKey() string {
	var host []byte
	if h := u.step().host; h != u.script.base.Host {
		host = []byte(h)
	}
	return string(u.target(host))
}

// lookUp has the step answered from the user's cache, and says whether that is so. If not,
// the request may have to ask whether what is there still is the answer: u.stale.
func (u *user) lookUp() bool {
	u.stale = nil
	c := u.root().cache
	if c == nil || !u.step().cacheable {
		return false
	}
	u.loop.fill(u)
	found := c.get(u.cacheKey())
	switch {
	case found == nil, u.step().wantsBody && !found.hasBody:
		return false
	case slices.ContainsFunc(found.vary, func(h headerLine) bool { return u.requestHeader(h.name) != h.value }):
		return false
	case found.freshUntil <= u.loop.clock.now():
		if found.condition.name != "" {
			u.stale = found
		}
		return false
	}
	u.state = userReading
	turn := u.turn
	// In a turn of its own: a journey of a thousand answers that are all there does not
	// need a thousand frames of the stack, and others have their turns between.
	u.loop.timers.add(u.loop.clock.now(), func(at time.Duration) {
		if u.state == userReading && u.turn == turn {
			u.readCache(found, at)
		}
	})
	return true
}

// readCache goes on with an answer from the cache. One in which the step misses something,
// which another step did not look for, is asked for.
func (u *user) readCache(found *stored, now time.Duration) {
	u.captured.copyFrom(&found.kept)
	var o outcome
	u.extractFrom(&o)
	if o.failed != failure.None {
		u.root().cache.remove(found.key)
		u.acquire()
		return
	}
	u.loop.shard.addCached(u.script.trip, u.intended, func(c *cacheCount) { c.hits++ })
	u.checkAnswer(http.StatusOK, failure.None)
	u.captured.body = trim(u.captured.body[:0]) // and it still has made no request
	u.pause(now)
}

// remember keeps an answer, or what it says about the one that is kept, and returns the
// status that the answer has for whoever is behind the cache.
func (u *user) remember(status int) int {
	c, k := u.root().cache, u.captured
	if c == nil {
		return status
	}
	if !u.step().cacheable {
		if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, u.step().method) && status < 400 {
			u.loop.fill(u)
			c.remove(u.cacheKey()) // RFC 9111, 4.4
		}
		return status
	}
	if found := u.stale; found != nil && status == http.StatusNotModified {
		u.loop.shard.addCached(u.script.trip, u.intended, func(c *cacheCount) { c.revalidated++ })
		found.kept.update(k)
		if !u.judge(found) {
			c.remove(found.key)
		}
		cookies := k.setCookies // those that are kept are none
		k.copyFrom(&found.kept)
		k.setCookies = cookies
		return http.StatusOK
	}
	if status == http.StatusOK {
		u.loop.shard.addCached(u.script.trip, u.intended, func(c *cacheCount) { c.fetched++ })
		u.store(c)
	}
	return status
}

// store keeps an answer, if it may be kept.
func (u *user) store(c *cache) {
	k := u.captured
	u.loop.fill(u)
	s := &stored{key: u.cacheKey(), hasBody: u.step().wantsBody}
	c.remove(s.key)
	if s.hasBody && k.cut {
		return
	}
	s.kept.copyFrom(k)
	s.kept.setCookies = nil // they were for once
	s.size = u.got + int64(len(s.key))
	if u.judge(s) {
		c.put(s)
	}
}

// judge reads from an answer's headers how it may be used, and returns whether it may be kept.
func (u *user) judge(s *stored) bool {
	left, ok := s.kept.lifetime()
	s.freshUntil, s.condition, s.vary = u.sent+left, s.kept.condition(), nil
	if !ok || left <= 0 && s.condition.name == "" {
		return false
	}
	u.loop.fill(u)
	for name := range strings.SplitSeq(s.kept.all("vary"), ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		switch name {
		case "":
		case "*", "cookie":
			return false
		default:
			s.vary = append(s.vary, headerLine{name, u.requestHeader(name)})
		}
	}
	return true
}

// requestHeader is what the step's request has of a header. Values have been drawn.
func (u *user) requestHeader(name string) string {
	for _, h := range u.step().header {
		if strings.EqualFold(h.name, name) {
			return string(h.value.append(nil, u.loop.values))
		}
	}
	return ""
}

// copyFrom makes k what other is, in memory of its own.
func (k *captured) copyFrom(other *captured) {
	k.reset()
	k.body = append(k.body, other.body...)
	k.setCookies = append(k.setCookies, other.setCookies...)
	k.headers = append(k.headers, other.headers...)
	k.coding, k.cut = other.coding, other.cut
}

// update puts the headers of a 304 in place of those that were kept (RFC 9111, 3.2). An Age
// that it does not have is over.
func (k *captured) update(with *captured) {
	k.headers = slices.DeleteFunc(k.headers, func(kept capturedHeader) bool {
		return kept.name == "age" || kept.name != "content-length" &&
			slices.ContainsFunc(with.headers, func(h capturedHeader) bool { return h.name == kept.name })
	})
	for _, h := range with.headers {
		if h.name != "content-length" {
			k.headers = append(k.headers, h)
		}
	}
}

// all is the value of a header, with those of several lines joined.
func (k *captured) all(name string) string {
	var values []string
	for _, h := range k.headers {
		if h.name == name {
			values = append(values, h.value)
		}
	}
	return strings.Join(values, ",")
}

// condition is what to ask with whether the answer has changed.
func (k *captured) condition() headerLine {
	if tag := k.all("etag"); tag != "" {
		return headerLine{"If-None-Match", tag}
	}
	if at := k.all("last-modified"); at != "" {
		return headerLine{"If-Modified-Since", at}
	}
	return headerLine{}
}

// lifetime is how long the answer stays fresh from when it was asked for, and whether it
// may be kept at all. It is 0 for one that is to be asked about each time.
func (k *captured) lifetime() (time.Duration, bool) {
	seconds, explicit, ask := int64(0), false, false
	for directive := range strings.SplitSeq(k.all("cache-control"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch strings.ToLower(name) {
		case "no-store":
			return 0, false
		case "no-cache":
			ask = true
		case "max-age":
			n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
			seconds, explicit = int64(n), true
			ask = ask || err != nil // what cannot be read is stale (RFC 9111, 4.2.1)
		}
	}
	if ask {
		return 0, true
	}
	if !explicit {
		expires, err := http.ParseTime(k.all("expires"))
		date, err2 := http.ParseTime(k.all("date"))
		if err == nil && err2 == nil {
			seconds = int64(expires.Sub(date) / time.Second)
		}
	}
	if age, err := strconv.ParseUint(k.all("age"), 10, 31); err == nil {
		seconds -= int64(age)
	}
	return time.Duration(max(seconds, 0)) * time.Second, true
}
