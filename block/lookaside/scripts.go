package lookaside

import "github.com/redis/rueidis"

// Each script moves one key, KEYS[1], from one state to another, see entry.go. Those of writers note
// it in the journal, KEYS[2], too, and grant is about the journal alone, see spare.go.

// prelude reads the state: v is what is there, and kind its letter, both empty where there
// is nothing or what is there is foreign. Versions are compared in two halves, as Lua's
// numbers have 53 bits.
const prelude = `
local v = redis.pcall('GET', KEYS[1])
if type(v) ~= 'string' then v = '' end
local kind = ''
if v:byte(1) == 1 then kind = v:sub(2, 2) end
local entry = (kind == 'v' or kind == 'a') and #v >= 34
local marker = kind == 'm' and #v >= 26 and (#v - 10) % 16 == 0
if not marker and not entry and kind ~= 'l' then kind = '' end
local function newer(a, b)
  local ah, al = struct.unpack('>I4I4', a)
  local bh, bl = struct.unpack('>I4I4', b)
  return ah > bh or ah == bh and al > bl
end
`

// noting adds a member to the journal. If something else is there nothing is added, and no process finds
// itself in it.
func noting() string {
	return `
local function note(journal, member)
  redis.pcall('SADD', journal, member)
  if redis.call('PTTL', journal) ~= -1 then return end
  redis.call('PEXPIRE', journal, ` + ms(journalLife) + `)
end
`
}

type scripts struct {
	claim, fill, release, touch, refresh, changing, changed, forget, grant *rueidis.Lua
}

func newScripts() scripts {
	script := func(text string) *rueidis.Lua { return rueidis.NewLuaScript(prelude + text) }
	noted := func(text string) *rueidis.Lua { return script(noting() + "note(KEYS[2], KEYS[1])" + text) }
	return scripts{
		// claim takes the lease ARGV[1] for ARGV[2] ms where there is nothing, or what begins
		// as the damaged entry ARGV[3], and returns nil. Else it returns what is there.
		claim: script(`
if kind == '' or entry and ARGV[3] ~= '' and v:sub(1, 34) == ARGV[3] then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return false
end
return v`),
		// fill puts the entry ARGV[2] for ARGV[3] ms in place of the lease ARGV[1].
		fill: script(`
if v ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`),
		// release gives the lease ARGV[1] back.
		release: script(`
if v ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`),
		// touch moves an entry's soft deadline from ARGV[1] to ARGV[2]: for one caller.
		touch: script(`
if not entry or v:sub(3, 10) ~= ARGV[1] then return 0 end
redis.call('SETRANGE', KEYS[1], 2, ARGV[2])
return 1`),
		// refresh puts the entry ARGV[1] for ARGV[2] ms in place of one that is not newer.
		refresh: script(`
if not entry or newer(v:sub(19, 26), ARGV[1]:sub(19, 26)) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`),
		// changing adds the writer ARGV[1] to the marker, for ARGV[2] ms from now. The oldest of
		// too many writers is forgotten: what it says later is then as if its marker were lost.
		changing: noted(`
local floor, writers = string.rep('\0', 8), ''
if marker then floor, writers = v:sub(3, 10), v:sub(11) end
if entry then floor = v:sub(19, 26) end
if #writers >= 64 * 16 then writers = writers:sub(17) end
redis.call('SET', KEYS[1], '\1m' .. floor .. writers .. ARGV[1], 'PX', ARGV[2])
return 1`),
		// changed takes the writer ARGV[1] from the marker, whose write made the version
		// ARGV[2]. The last writer puts the entry ARGV[3] there for ARGV[4] ms if no other
		// was newer; '' for a write that did not take place.
		changed: noted(`
if not marker then
  if entry and not newer(ARGV[2], v:sub(19, 26)) then return 0 end
  redis.call('DEL', KEYS[1])
  return 0
end
local floor, writers, mine = v:sub(3, 10), '', false
for at = 11, #v, 16 do
  local writer = v:sub(at, at + 15)
  local this = not mine and writer == ARGV[1]
  mine = mine or this
  writers = writers .. (this and '' or writer)
end
local first = newer(ARGV[2], floor)
if writers ~= '' then
  if first then floor = ARGV[2] end
  redis.call('SET', KEYS[1], '\1m' .. floor .. writers, 'KEEPTTL')
  return 0
end
if first and ARGV[3] ~= '' then
  redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
  return 1
end
redis.call('DEL', KEYS[1])
return 0`),
		// forget removes what may be from before a write. A marker stays, and refuses the values
		// of its writers, which may be older: who ends last leaves a miss.
		forget: noted(`
if marker then
  redis.call('SET', KEYS[1], '\1m' .. string.rep('\255', 8) .. v:sub(11), 'KEEPTTL')
  return 1
end
if not entry and kind ~= 'l' then return 0 end
return redis.call('DEL', KEYS[1])`),
		// grant notes the process ARGV[1] in the journal, which is KEYS[1] here, of a Redis that is up for
		// less than ARGV[2] ms. It returns how many seconds that are.
		grant: rueidis.NewLuaScript(noting() + `
local up = tonumber(redis.call('INFO', 'server'):match('uptime_in_seconds:(%d+)'))
if up * 1000 < tonumber(ARGV[2]) then note(KEYS[1], ARGV[1]) end
return up`),
	}
}
