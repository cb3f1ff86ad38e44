package broadcast

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is Redis' name of a script
	"encoding/hex"
	"strconv"

	"github.com/redis/rueidis"
)

// epoch is the name of what Redis has: the identity of its history, which is another one once it
// was started again or a replica took over. Whoever gives a place says so in the same step, so
// that no two messages have one place in one epoch.
const epoch = `
local epoch = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)'):sub(1, 16)
`

// place gives a message a place, unless it has one, and tells all servers.
//
//	KEYS  the room's length; its history; the message's id
//	ARGV  channel; the message on the wire from behind its offset on; how many to keep; for how
//	      many seconds the id is known; its time
//	→     epoch, offset, time, 1 if it had a place before
var place = newScript(epoch + `
local before = redis.call('GET', KEYS[3])
if before then
  local offset, at = before:match('(%d+) (%d+)')
  return {epoch, offset, at, 1}
end
local offset = string.format('%.0f', redis.call('INCR', KEYS[1]) - 1)
local message = '{"offset":' .. offset .. ARGV[2]
redis.call('RPUSH', KEYS[2], message)
redis.call('LTRIM', KEYS[2], -ARGV[3], -1)
redis.call('SET', KEYS[3], offset .. ' ' .. ARGV[5], 'EX', ARGV[4])
redis.call('PUBLISH', ARGV[1], epoch .. ' ' .. offset .. ' ' .. message)
return {epoch, offset, ARGV[5], 0}`)

// history reads what is kept of a room.
//
//	KEYS  the room's length; its history
//	ARGV  the first offset; before which; how many at most, the last if the fourth is 1, else the first
//	→     epoch, the offset of the next message, that of the first that follows here, messages...
//
//nolint:dupword // two blocks of Lua end
var history = newScript(epoch + `
local next = tonumber(redis.call('GET', KEYS[1]) or '0')
local oldest = next - redis.call('LLEN', KEYS[2])
local from, to = math.max(tonumber(ARGV[1]), oldest), math.min(tonumber(ARGV[2]), next)
if ARGV[4] == '1' then from = math.max(from, to - ARGV[3]) else to = math.min(to, from + ARGV[3]) end
local all = {epoch, string.format('%.0f', next), string.format('%.0f', from)}
if from < to then
  for _, message in ipairs(redis.call('LRANGE', KEYS[2], from - oldest, to - oldest - 1)) do
    all[#all + 1] = message
  end
end
return all`)

// keep keeps a summary of a room, unless there is a newer one. One of more messages than the room has is of what Redis
// has forgotten: no summary of what is there would be newer for long.
//
//	KEYS  the room's length; its summary
//	ARGV  the summary; the offset behind its messages
//	→     1 if it is kept
var keep = newScript(`
local next = tonumber(ARGV[2])
if next > tonumber(redis.call('GET', KEYS[1]) or '0') then return 0 end
local read, before = pcall(cjson.decode, redis.call('GET', KEYS[2]) or '{}')
if read and type(before) == 'table' and type(before.next) == 'number' and before.next > next then return 0 end
redis.call('SET', KEYS[2], ARGV[1])
return 1`)

// script is one that Redis knows by its digest once it was sent.
type script struct{ text, digest string }

func newScript(text string) script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
	return script{text, hex.EncodeToString(sum[:])}
}

// call is one call of a script.
type call struct{ keys, args []string }

// do calls a script so many times, in one pipeline. A Redis that does not know it yet is sent it.
func (s script) do(ctx context.Context, client rueidis.Client, calls ...call) []rueidis.RedisResult {
	commands := make(rueidis.Commands, len(calls))
	for i, c := range calls {
		commands[i] = client.B().Evalsha().Sha1(s.digest).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
	}
	results := client.DoMulti(ctx, commands...)
	for i, c := range calls {
		if e, ok := rueidis.IsRedisErr(results[i].Error()); ok && e.IsNoScript() {
			results[i] = client.Do(ctx, client.B().Arbitrary("EVAL", s.text, strconv.Itoa(len(c.keys))).Keys(c.keys...).Args(c.args...).Build())
		}
	}
	return results
}
