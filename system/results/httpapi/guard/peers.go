package guard

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"loadstone/block/cache/rediscache"
)

// Peers are the replicas that share a Redis. What they tell each other is counted there
// under keys that begin with "results.limits:1:" and go by themselves; a Redis that is
// full may forget some, which is as if it had been away.
//
// A call has callTimeout, and after one that failed there is none for restTime: then
// every replica counts for itself.
type Peers struct {
	option rueidis.ClientOption
	client atomic.Pointer[rueidis.Client] // nil until Redis answered for the first time
	rested atomic.Int64                   // when it is asked again, in nanoseconds since 1970
	alone  atomic.Uint64
	lots   chan spent
	limits []string // of a try, see tryScript

	timeout time.Duration // callTimeout
}

const (
	peersPrefix = "results.limits:1:"
	// callTimeout is that of a look-up in the same Redis: a replica that its own CPU limit makes read
	// an answer late must not count for itself.
	callTimeout = rediscache.ReadTimeout
	restTime    = 250 * time.Millisecond
	// lot is how many requests of an address are told at once.
	lot = 10
	// maxLots are told in one call, and as many wait for it.
	maxLots = 256
)

// spent are requests of an address.
type spent struct {
	guard *Guard
	who   key
	at    int64 // the guard's instant
	debt  int64 // nanoseconds
}

// NewPeers returns the replicas that count tries with this Config in the Redis at addr,
// host:port. Redis need not run: Run connects to it.
func NewPeers(cfg Config, addr, username, password string) *Peers {
	return &Peers{
		timeout: callTimeout, lots: make(chan spent, maxLots),
		limits: []string{
			strconv.Itoa(whole * cfg.Tries), strconv.Itoa(whole * cfg.SlowAfter), strconv.Itoa(whole),
			strconv.FormatInt(cfg.Window.Milliseconds(), 10),
		},
		option: rueidis.ClientOption{
			InitAddress: []string{addr}, Username: username, Password: password,
			ForceSingleClient: true, DisableCache: true, DisableRetry: true,
			Dialer: net.Dialer{Timeout: time.Second}, ConnWriteTimeout: time.Second,
			ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10, RingScaleEachConn: 8,
		},
	}
}

// Alone is how many calls Redis did not answer, or was not asked because of that.
func (p *Peers) Alone() uint64 { return p.alone.Load() }

// Run connects to Redis and tells it of requests, until ctx ends.
func (p *Peers) Run(ctx context.Context) error {
	p.connect()
	ticker := time.NewTicker(restTime)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			p.connect()
		case first := <-p.lots:
			p.spend(first) //nolint:contextcheck // bounded, and soon over
		}
	}
}

// Close ends the connection, after Run has returned and the last request.
func (p *Peers) Close() error {
	if client := p.client.Load(); client != nil {
		(*client).Close()
	}
	return nil
}

func (p *Peers) connect() {
	if p.client.Load() != nil {
		return // it connects again by itself
	}
	if client, err := rueidis.NewClient(p.option); err == nil {
		p.client.Store(&client)
	}
}

// call runs a script whose answer is a number, or several.
func (p *Peers) call(script *rueidis.Lua, keys, args []string) ([]int64, bool) {
	client := p.client.Load()
	if client == nil || time.Now().UnixNano() < p.rested.Load() {
		p.alone.Add(1)
		return nil, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	said, err := script.Exec(ctx, *client, keys, args).AsIntSlice()
	if err != nil || len(said) != len(keys) && len(said) != 1 {
		p.alone.Add(1)
		p.rested.Store(time.Now().Add(restTime).UnixNano())
		return nil, false
	}
	return said, true
}

// tryScript counts a try of KEYS[1], a pair, and of KEYS[2], its id, unless the pair is
// locked: then of the id alone, if the code was looked at. It returns for how many
// milliseconds the pair is locked. The rules are those of entry.add and triesFor. ARGV:
// limit of a pair, limit of an id, limit of a pair whose id is slowed, window, weight,
// 1 if the code was looked at.
var tryScript = rueidis.NewLuaScript(`
local tries, slow, weight = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[5])
local limit = tries
if tonumber(redis.call('GET', KEYS[2]) or 0) >= slow then limit = tonumber(ARGV[3]) end
local function add(key, limit)
  local n = redis.call('INCRBY', key, weight)
  return (n == weight or n >= limit) and redis.call('PEXPIRE', key, ARGV[4])
end
if tonumber(redis.call('GET', KEYS[1]) or 0) >= limit then
  if ARGV[6] == '1' then add(KEYS[2], slow) end
  return {math.max(redis.call('PTTL', KEYS[1]), 1)}
end
add(KEYS[1], limit)
add(KEYS[2], slow)
return {0}`)

// try counts a try for all replicas; looked says that its code was looked at, and not that
// it may be. told is false if Redis did not answer.
func (p *Peers) try(try *Try, looked bool) (wait time.Duration, told bool) {
	args := append(slices.Clip(p.limits), strconv.Itoa(int(try.weight)), map[bool]string{false: "0", true: "1"}[looked])
	said, ok := p.call(tryScript, try.keys(), args)
	if !ok {
		return 0, false
	}
	return time.Duration(said[0]) * time.Millisecond, true
}

func (t *Try) keys() []string {
	id := strconv.FormatInt(t.id, 10)
	return []string{fmt.Sprintf("%spair:%s:%x", peersPrefix, id, uint64(t.from)), peersPrefix + "id:" + id}
}

// forgiveScript takes back what was counted for a pair, and this try for its id.
var forgiveScript = rueidis.NewLuaScript(`
redis.call('DEL', KEYS[1])
if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('DECRBY', KEYS[2], ARGV[1]) end
return {0}`)

func (p *Peers) forgive(try *Try) {
	p.call(forgiveScript, try.keys(), []string{strconv.Itoa(int(try.weight))})
}

// spendScript adds ARGV[i] microseconds to the debt of each address KEYS[i], and returns
// the debts: Guard.Request for all replicas, by Redis's clock.
var spendScript = rueidis.NewLuaScript(`
local t = redis.call('TIME')
local now, debts = t[1] * 1000000 + t[2], {}
for i, key in ipairs(KEYS) do
  local full = math.max(tonumber(redis.call('GET', key) or 0), now) + tonumber(ARGV[i])
  redis.call('SET', key, string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000))
  debts[i] = full - now
end
return debts`)

// spend tells of all requests that wait for it.
func (p *Peers) spend(first spent) {
	all := []spent{first}
	for more := true; more && len(all) < maxLots; {
		select {
		case next := <-p.lots:
			all = append(all, next)
		default:
			more = false
		}
	}
	keys, args := make([]string, len(all)), make([]string, len(all))
	for i, s := range all {
		keys[i] = fmt.Sprintf("%saddress:%x", peersPrefix, s.who.first)
		args[i] = strconv.FormatInt(s.debt/int64(time.Microsecond), 10)
	}
	debts, ok := p.call(spendScript, keys, args)
	if !ok || len(debts) != len(all) {
		return
	}
	for i, s := range all {
		s.guard.owes(s.who, s.at, time.Duration(debts[i])*time.Microsecond)
	}
}
