package rediscache

import "github.com/redis/rueidis"

// putScript keeps the item ARGV[1] under KEYS[1] for ARGV[2] milliseconds unless
// a newer one is there. So a load that began before a correction and ended after
// it changes nothing. What is there and no item is overwritten.
var putScript = rueidis.NewLuaScript(`
local kept = redis.call('GETRANGE', KEYS[1], 0, 9)
if #kept == 10 and string.byte(kept) == 1 and struct.unpack('>I8', kept, 3) > struct.unpack('>I8', ARGV[1], 3) then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`)

// correctScript keeps the item whatever is there, and then tells ARGV[3] about it:
// in one step, so that whoever hears of it finds it.
var correctScript = rueidis.NewLuaScript(`
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('PUBLISH', ARGV[3], ARGV[4])
return 1`)

// releaseScript deletes the lease KEYS[1] if it is still the one with the token
// ARGV[1]: it may have expired and be somebody else's.
var releaseScript = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)
