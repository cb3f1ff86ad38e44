package engine

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tidwall/gjson"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
	"loadstone/lab/load/seed"
)

// node is one part of a script's flow: a step, or a group of parts.
type node struct {
	step  int
	group *group // nil for a step
	when  []condition
}

// condition is what a value must be.
type condition struct {
	value int // index into script.values
	load.Condition
}

// group is a group of parts, compiled (see load.Part).
type group struct {
	nodes      []node
	passes     int // 0 where a list decides
	list, item int // indices into script.values, where a list decides
	lanes      int // at once; 0 for one after the other
	while      []condition
}

// flow compiles parts.
func (c *script) flow(parts []load.Part) []node {
	var out []node
	for i := range parts {
		p := &parts[i]
		if len(p.Parts) == 0 {
			out = append(out, node{step: p.Step, when: c.conditions(p.If)})
			continue
		}
		g := &group{nodes: c.flow(p.Parts), passes: max(p.Repeat, 1), lanes: p.Parallel, while: c.conditions(p.While)}
		if p.ForEach != "" {
			g.passes, g.list, g.item = 0, c.source(p.ForEach, true), c.source(p.As, true)
		}
		out = append(out, node{group: g, when: c.conditions(p.If)})
	}
	return out
}

// conditions compiles conditions.
func (c *script) conditions(all []load.Condition) (out []condition) {
	for _, one := range all {
		out = append(out, condition{c.source(one.Value, false), one})
	}
	return out
}

// holds says whether all of some conditions do now.
func (u *user) holds(all []condition) bool {
	for i := range all {
		c := &all[i]
		value := u.loop.condition[:0]
		if from := &u.script.values[c.value]; from.extracted {
			value = append(value, u.value(c.value)...)
		} else {
			value = u.script.feeds.Append(value, from.column, u.position())
		}
		u.loop.condition = value
		if !c.Holds(string(value)) {
			return false
		}
	}
	return true
}

// journey is where a user is in its script's flow. Users whose script only goes from
// step to step have none.
//
// # Lanes
//
// What a group does at once, lanes do: users that have no iterations of their own. The
// passes of the group (or, where it makes one pass, its parts) are units of work. Each
// lane takes a unit, makes its steps in turn, and takes the next; when no unit is left
// and the last lane is done, the user whose lanes they are goes on. The first lane has
// its user's link and the others have links of their own, which stay: so a user has as
// many connections as an app that opens six. Over HTTP/2 all have streams of the user's
// connection.
//
// A unit that fails ends there, and the others are made all the same, as in k6's
// http.batch. Then the iteration ends.
//
// A lane sees what its user has extracted, and keeps what it extracts to itself until
// all is done: what is done at once does not see each other.
//
// # Recursion
//
// A request can fail before its send returns. Then the lane's loop takes the next unit,
// rather than the end of the unit before it: a thousand requests that fail at once do
// not need a thousand frames of the stack.
type journey struct {
	stack []frame // the groups that the user is in, the outermost first

	// Of a user whose lanes are at work.
	lanes  []*user
	group  *group
	list   []string // that the passes are over
	units  int
	next   int           // the first unit that no lane has taken
	atWork int           // lanes, and fork itself while it starts them
	failed failure.Kind  // why the first unit failed that did
	latest time.Duration // when the last lane was done that is
	cut    bool          // no further unit is to be taken

	// Of a lane.
	user      *user // whose lane it is; nil for a user of its own
	unit      int
	beginning bool // a unit is being begun
	over      bool // and has ended meanwhile,
	overAt    time.Duration
}

// frame is a group that is under way.
type frame struct {
	nodes        []node
	at           int // of the next
	pass, passes int
	group        *group // nil for the flow itself
	list         []string
}

// root is the user that the iteration belongs to.
func (u *user) root() *user {
	if u.journey != nil && u.journey.user != nil {
		return u.journey.user
	}
	return u
}

// isLane says whether the user makes a part of another's iteration.
func (u *user) isLane() bool { return u.journey != nil && u.journey.user != nil }

// value is what was extracted for a placeholder.
func (u *user) value(i int) []byte {
	if v := u.values[i]; v != nil || !u.isLane() {
		return v
	}
	return u.journey.user.values[i]
}

// setValue keeps a value. It is not nil after that, be it empty.
func (u *user) setValue(i int, value string) {
	if u.values[i] == nil {
		u.values[i] = make([]byte, 0, len(value))
	}
	u.values[i] = append(u.values[i][:0], value...)
}

// setOut begins the flow of an iteration.
func (u *user) setOut(now time.Duration) {
	j := u.journey
	clear(j.stack)
	j.stack = append(j.stack[:0], frame{nodes: u.script.flowNodes, passes: 1})
	u.advance(now)
}

// advance goes on in the flow: to the next step, or to the end.
func (u *user) advance(now time.Duration) {
	j := u.journey
	for len(j.stack) > 0 {
		f := &j.stack[len(j.stack)-1]
		if f.at == len(f.nodes) {
			if f.pass++; f.pass < f.passes && (f.group == nil || u.holds(f.group.while)) {
				f.at = 0
				u.setItem(f.group, f.list, f.pass)
				continue
			}
			*f = frame{}
			j.stack = j.stack[:len(j.stack)-1]
			continue
		}
		n := f.nodes[f.at]
		f.at++
		switch {
		case !u.holds(n.when):
		case n.group == nil:
			u.at = n.step
			u.startStep(now)
			return
		case n.group.lanes > 0:
			if u.fork(n.group, now) {
				return
			}
		default:
			u.enter(n.group)
		}
	}
	if !u.made && !u.isLane() {
		u.idle(now)
		return
	}
	u.end(failure.None, now)
}

// idlePause is how long an iteration takes that has nothing to do. A user of the closed
// model would make thousands of them in a row otherwise, and nothing else.
const idlePause = time.Millisecond

// idle ends an iteration in which no condition held.
func (u *user) idle(now time.Duration) {
	u.state = userThinking
	u.addThinking(1)
	u.turn++
	turn := u.turn
	u.loop.timers.add(now+idlePause, func(at time.Duration) {
		if u.state == userThinking && u.turn == turn {
			u.addThinking(-1)
			u.end(failure.None, at)
		}
	})
}

// enter begins a group whose parts are made in turn.
func (u *user) enter(g *group) {
	passes, list := u.passes(g)
	if passes == 0 || !u.holds(g.while) {
		return
	}
	u.journey.stack = append(u.journey.stack, frame{nodes: g.nodes, passes: passes, group: g, list: list})
	u.setItem(g, list, 0)
}

// passes is how many passes a group makes, and over which list.
func (u *user) passes(g *group) (int, []string) {
	if g.passes > 0 {
		return g.passes, nil
	}
	list := texts(gjson.ParseBytes(u.value(g.list)))
	return len(list), list
}

// texts are the values of a list.
func texts(list gjson.Result) []string {
	var out []string
	list.ForEach(func(_, v gjson.Result) bool {
		out = append(out, v.String())
		return true
	})
	return out
}

// setItem sets the placeholder of a group over a list for one of its passes.
func (u *user) setItem(g *group, list []string, pass int) {
	if list != nil {
		u.setValue(g.item, list[pass])
	}
}

// fork has lanes make a group at once. It returns false if there is nothing to do.
func (u *user) fork(g *group, now time.Duration) bool {
	j := u.journey
	passes, list := u.passes(g)
	units := passes
	if g.alone() {
		units = len(g.nodes)
	}
	if units == 0 {
		return false
	}
	lanes := min(g.lanes, units)
	for len(j.lanes) < lanes {
		j.lanes = append(j.lanes, u.newLane(len(j.lanes)))
	}
	j.group, j.list, j.units, j.next = g, list, units, 0
	j.failed, j.cut, j.atWork, j.latest = failure.None, false, lanes+1, now
	u.state = userForked
	u.turn++
	for i, lane := range j.lanes[:lanes] {
		lane.first, lane.open, lane.waited = u.first && i == 0, u.open, u.waited && i == 0
		lane.number, lane.own, lane.due = u.number, u.own, u.due
		clear(lane.values)
		lane.take(now)
	}
	u.first, u.waited = false, false
	u.joined(now)
	return true
}

// alone says whether a group makes one pass, so that what is done at once are its
// parts.
func (g *group) alone() bool { return g.passes == 1 }

// newLane returns a user's lane number k.
func (u *user) newLane(k int) *user {
	lane := &user{
		loop: u.loop, index: u.index, thinking: u.thinking, scripts: u.scripts, script: u.script, slots: u.slots,
		journey: &journey{user: u},
	}
	if u.slots == nil {
		lane.link = u.link
		if k > 0 {
			lane.link = u.loop.newLaneLink(u)
		}
	}
	if u.values != nil {
		lane.values = make([][]byte, len(u.values))
	}
	if u.captured != nil {
		lane.captured = &captured{}
	}
	return lane
}

// newLaneLink returns another link for a user: a connection, or over HTTP/2 a share in
// its own.
func (l *loop) newLaneLink(of *user) link {
	if r, ok := of.link.(*remote); ok && l.run.protocol() == load.HTTP2 {
		return newRemote(l, r.to, r.conn)
	}
	return l.newLink(of.index)
}

// take has a lane make one unit after the other, until one is under way or there are
// none left.
func (u *user) take(now time.Duration) {
	own := u.journey
	j := own.user.journey
	for j.next < j.units && !j.cut {
		own.unit, own.over, own.beginning = j.next, false, true
		j.next++
		clear(own.stack)
		own.stack = own.stack[:0]
		if g := j.group; g.alone() {
			own.stack = append(own.stack, frame{nodes: g.nodes[own.unit : own.unit+1], passes: 1})
		} else {
			clear(u.values)
			own.stack = append(own.stack, frame{nodes: g.nodes, passes: 1})
			u.setItem(g, j.list, own.unit)
		}
		u.advance(now)
		own.beginning = false
		if !own.over {
			return
		}
		now = own.overAt
	}
	u.state = userFree
	own.user.joined(now)
}

// unitEnded ends a lane's unit.
func (u *user) unitEnded(kind failure.Kind, now time.Duration) {
	own := u.journey
	j := own.user.journey
	u.turn++
	j.failed = cmp.Or(j.failed, kind)
	if own.beginning {
		own.over, own.overAt = true, now
		return
	}
	u.take(now)
}

// joined takes note that a lane has nothing left to do; after the last of them the
// iteration goes on.
func (u *user) joined(now time.Duration) {
	j := u.journey
	j.latest = max(j.latest, now) // fork itself may be last, with the time that it began at
	if j.atWork--; j.atWork > 0 {
		return
	}
	now = j.latest
	for _, lane := range j.lanes {
		for i, v := range lane.values {
			if v != nil && j.group.alone() {
				u.setValue(i, string(v))
			}
		}
		clear(lane.values)
	}
	failed := j.failed
	j.group, j.list = nil, nil
	if failed != failure.None || j.cut {
		u.end(failed, now)
		return
	}
	u.advance(now)
}

// cutLanes ends what lanes have under way: first those that wait for a connection, or
// each would be sent on one that another leaves.
func (u *user) cutLanes() {
	j := u.journey
	j.cut = true
	cutWaiting(j.lanes)
	for _, lane := range j.lanes {
		lane.cut()
	}
}

// closeLinks closes the user's connections. Nothing may be under way.
func (u *user) closeLinks() {
	for _, l := range linksOf([]*user{u}) {
		l.close()
	}
}

// stream is the stream of random numbers for the step under way: it depends on the
// iteration and on the pass, and not on who makes it.
func (u *user) stream() uint64 {
	key := seed.At(u.script.key+uint64(u.step().index)+1, u.number)
	if u.journey == nil {
		return key
	}
	for _, f := range u.root().journey.stack {
		key = seed.At(key, uint64(f.pass))
	}
	if u.isLane() {
		key = seed.At(key, uint64(u.journey.unit))
		for _, f := range u.journey.stack {
			key = seed.At(key, uint64(f.pass))
		}
	}
	return key
}

// listed says what is wrong with a list that was extracted; empty for nothing.
func listed(v gjson.Result) string {
	if !v.IsArray() {
		return fmt.Sprintf("there is %.40s, and forEach or join needs a list", v.Raw)
	}
	n, wrong := 0, ""
	v.ForEach(func(_, item gjson.Result) bool {
		if n++; item.IsObject() || item.IsArray() || item.Type == gjson.Null {
			wrong = fmt.Sprintf("value %d of the list is %.40s, and forEach or join needs texts, numbers or booleans", n, item.Raw)
		} else if n > load.MaxListed {
			wrong = fmt.Sprintf("the list has more than %d values", load.MaxListed)
		}
		return wrong == ""
	})
	return wrong
}
