package engine

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
	"loadstone/lab/load/feed"
	"loadstone/lab/load/seed"
)

// link is a user's way to its target: a connection of its own, or a share in
// others'. Each send ends in the user's answered, on the user's event loop,
// perhaps before it returns if it fails.
type link interface {
	// target is the index of the target that it leads to.
	target() int
	// ahead makes the link ready before it is needed, and calls done.
	ahead(done func(failure.Kind, error))
	// send has one round trip for u.
	send(u *user)
	// abort ends what is under way, if anything is.
	abort(kind failure.Kind, err error)
	// close ends the connection, if there is one and nobody else uses it.
	close()
}

// user is a virtual user: it makes one iteration after the other, each of one
// or more steps. It is a state machine and belongs to one event loop.
type user struct {
	loop     *loop
	owner    owner
	index    int // within its scenario
	own      uint64
	thinking *atomic.Int64 // users of the scenario that are
	scripts  []*script     // by target
	script   *script
	link     link
	slots    *slots // where links are borrowed; nil if link is its own

	state     userState
	freeAt    time.Duration
	number    uint64        // of the iteration
	began     time.Duration // when it was intended to
	logTarget string        // the target that the access log has for it
	measured  bool          // the iteration's intended time lies in the measured part
	open      bool          // it came from a schedule
	waited    bool          // nobody was free at the iteration's time
	first     bool          // no request of it has ended
	made      bool          // a request of it was made, or answered by the cache
	failed    bool          // a request of it did
	failures  int           // iterations in a row of which one did
	due       time.Duration // when its first request is
	at        int           // which step of the script
	turn      uint64        // counts states, so that a late timer sees that it is too late

	// Of the step under way.
	intended, sent, done time.Duration
	wrote, got           int64
	unsent               bool // no connection came free for it

	values         [][]byte  // extracted, by script.values
	captured       *captured // of the answer; nil if no step keeps any
	jar            *jar
	cache          *cache        // nil for none, and for lanes
	stale          *stored       // what the request asks about; nil for nothing
	journey        *journey      // where it is in a flow; nil if steps are made each once, in turn
	before, behind *user         // in a line of free users, or of those waiting for a link
	waitingSince   time.Duration // when it began to wait for a link
}

type userState uint8

const (
	userFree     userState = iota
	userWaiting            // for a link
	userSending            // and waiting for the answer
	userThinking           // between steps, or after the last
	userForked             // its lanes are at work
	userReading            // an answer in its cache
)

// owner is the part of a scenario that users of one event loop belong to.
type owner interface {
	// released takes back a user whose iteration has ended.
	released(u *user, failed failure.Kind)
}

// newUser returns user number index of a scenario.
func newUser(index int, sc *scenario, l *loop, own owner) *user {
	u := &user{loop: l, owner: own, index: index, thinking: &sc.thinking, scripts: sc.scripts, script: sc.scripts[0]}
	if l.slots != nil {
		u.slots = l.slots
	} else {
		u.link = l.newLink(index)
	}
	if n := len(u.script.values); n > 0 && slices.ContainsFunc(u.script.values, func(s source) bool { return s.extracted }) {
		u.values = make([][]byte, n)
	}
	if slices.ContainsFunc(u.script.steps, func(s step) bool { return s.capture != nil }) {
		u.captured = &captured{}
	}
	if u.script.flowNodes != nil {
		u.journey = &journey{}
	}
	if sc.spec.CacheBytes > 0 {
		u.cache = newCache(sc.spec.CacheBytes, &sc.caches)
	}
	return u
}

// begin starts an iteration that was intended for a time.
func (u *user) begin(a load.Arrival, open, waited bool) {
	u.number, u.open, u.waited, u.first = a.Number, open, waited, true
	u.began, u.due, u.measured, u.made = a.At, a.At, a.At >= u.loop.run.from, false
	u.failed = false
	if u.jar != nil && !u.script.keepCookies {
		u.jar = nil
	}
	for _, v := range u.script.initial {
		u.setValue(v.variable, v.value)
	}
	u.pick(a)
	if u.journey != nil {
		u.setOut(a.At)
		return
	}
	u.startStep(a.At)
}

// pick sets the first step of an iteration.
func (u *user) pick(a load.Arrival) {
	u.at, u.logTarget = 0, a.Target
	switch {
	case u.script.weighted:
		u.at = u.script.draw(u.number)
	case a.Method == http.MethodHead:
		u.at = 1
	}
}

// step is the step under way.
func (u *user) step() *step { return &u.script.steps[u.at] }

// startStep has the step's request, which was intended for a time, sent. In an open model
// the first request is due when the iteration is, or after its last pause: what a user's
// cache answered before does not hide that it began late.
func (u *user) startStep(intended time.Duration) {
	if u.first && u.open {
		intended = u.due
	}
	u.intended, u.wrote, u.got = intended, 0, 0
	u.turn++
	u.root().made = true
	u.unsent = false
	if !u.lookUp() {
		u.acquire()
	}
}

// acquire gets a link for the step's request.
func (u *user) acquire() {
	if u.slots == nil {
		u.linked(u.link)
	} else if free := u.slots.acquire(u); free != nil {
		u.linked(free)
	} else {
		u.state, u.waited = userWaiting, true // the slots call linked
	}
}

// linked goes on once there is a link.
func (u *user) linked(by link) {
	u.link, u.script = by, u.scripts[by.target()]
	u.state = userSending
	u.sent = u.loop.clock.now()
	u.link.send(u)
}

// wire returns the step's request as HTTP/1.1. It is valid until the next
// call on the same event loop.
func (u *user) wire() []byte {
	l := u.loop
	l.fill(u)
	out := l.out[:0]
	step := u.step()
	t := step.wire
	for i := range t {
		p := &t[i]
		out = append(out, p.literal...)
		switch p.then {
		case thenNothing:
		case thenPathValue:
			out = appendEscaped(out, l.values[p.value])
		case thenHeaderValue:
			out = appendPrintable(out, l.values[p.value])
		case thenBodyValue:
			out = p.escape.Append(out, l.values[p.value])
		case thenBodyLength:
			out = appendInt(out, step.body.length(l.values))
		case thenLogTarget:
			out = append(out, u.logTarget...)
		case thenCookies:
			if jar := u.root().jar; jar != nil {
				out = jar.append(out, u.target(nil))
			}
		case thenCondition:
			if u.stale != nil {
				out = append(append(out, u.stale.condition.name...), ": "...)
				out = append(append(out, u.stale.condition.value...), "\r\n"...)
			}
		}
	}
	l.out = out
	u.wrote = int64(len(out))
	return out
}

// target appends the target of the step's request, once its values are drawn.
func (u *user) target(dst []byte) []byte {
	if u.logTarget != "" {
		return append(append(dst, u.step().path...), u.logTarget...)
	}
	return u.step().target.append(dst, u.loop.values)
}

// position is where in the load the iteration is.
func (u *user) position() feed.Position {
	return feed.Position{Iteration: u.number, VU: u.index, Own: u.own}
}

// answered ends the step under way; done is set.
func (u *user) answered(status int, kind failure.Kind, err error) {
	now := u.done
	if u.slots != nil {
		link := u.link
		u.link = nil
		if link != nil {
			defer u.slots.release(link)
		}
	}
	o := outcome{
		step: u.step().index, intended: u.intended, sent: u.sent, done: now,
		status: status, failed: kind, err: err,
		open: u.open && u.first, waited: u.waited,
		wrote: u.wrote, got: u.got, unsent: u.unsent,
	}
	if kind == failure.None {
		status = u.remember(status)
	}
	o.unexpected = !u.step().expects(status)
	if kind == failure.None && u.step().capture != nil {
		u.extractFrom(&o)
		if o.unexpected && u.script.explain {
			o.said = load.Beginning(u.captured.body)
		}
	}
	u.checkAnswer(status, kind)
	u.loop.shard.addRequest(&o)
	if o.failed != failure.None || o.unexpected {
		u.root().failed = true
	}
	u.forget()
	if o.failed != failure.None {
		u.end(o.failed, now)
		return
	}
	u.pause(now)
}

// checkAnswer records whether the step's checks hold.
func (u *user) checkAnswer(status int, kind failure.Kind) {
	for i := range u.step().checks {
		c := &u.step().checks[i]
		u.loop.shard.addCheck(c.index, u.intended, u.checkPasses(c, status, kind))
	}
}

// forget ends what belongs to one step.
func (u *user) forget() {
	if u.captured != nil {
		u.captured.body = trim(u.captured.body[:0])
	}
	u.first, u.waited = false, false
}

// extractFrom takes cookies and values from an answer.
func (u *user) extractFrom(o *outcome) {
	u.loop.decoder.decode(u.captured)
	k := u.captured
	if len(k.setCookies) > 0 {
		root := u.root()
		if root.jar == nil {
			root.jar = newJar(u.script.base)
		}
		u.loop.fill(u)
		root.jar.set(u.target(nil), k.setCookies)
	}
	for i := range u.step().extract {
		e := &u.step().extract[i]
		value, err := u.taken(e, o.status)
		if err != nil {
			o.err, o.status, o.failed = err, 0, failure.NoValue
			return
		}
		u.setValue(e.variable, value)
	}
}

// taken is what an extraction takes from the answer, and measures it if it is a metric.
func (u *user) taken(e *extraction, status int) (string, error) {
	k := u.captured
	value, ok := k.value(&e.Extract)
	switch {
	case !ok && e.Default != nil && !k.cut && k.problem == "": // of what was read whole
		value = *e.Default
		if value == "" {
			return "", nil
		}
	case !ok:
		return "", fmt.Errorf("step %q: its answer, of status %d, has no %s for {%s}%s", u.step().name, status, e.where(), e.name, k.why(e))
	case e.list || e.Join != "":
		list := gjson.GetBytes(k.body, e.JSON)
		if wrong := listed(list); wrong != "" {
			return "", fmt.Errorf("step %q: in its answer, of status %d, at %s: %s", u.step().name, status, e.JSON, wrong)
		}
		if e.Join != "" {
			value = strings.Join(texts(list), e.Join)
		}
	}
	if e.Metric {
		return value, u.measure(e, value)
	}
	return value, nil
}

// why says what is wrong with the body that has no value, if something is.
func (k *captured) why(e *extraction) string {
	switch {
	case e.JSON == "":
		return ""
	case k.problem == "" && k.cut:
		return ": " + tooLong
	case k.problem != "":
		return ": " + k.problem
	}
	return ""
}

// where is an extraction's place in words.
func (e *extraction) where() string {
	if e.Header != "" {
		return "header " + e.Header
	}
	return "value at " + e.JSON
}

// checkPasses says whether a check passes.
func (u *user) checkPasses(c *check, status int, kind failure.Kind) bool {
	if kind != failure.None {
		return false
	}
	switch {
	case len(c.Status) > 0:
		return slices.Contains(c.Status, status)
	case c.Contains != "":
		return bytes.Contains(u.captured.body, []byte(c.Contains))
	default:
		value, ok := u.captured.json(c.JSON)
		return ok && (c.Equals == nil || value == *c.Equals)
	}
}

// pause has the user think after a step, and go on.
func (u *user) pause(now time.Duration) {
	think := u.step().think
	if think[1] <= 0 {
		u.nextStep(now)
		return
	}
	// Drawn by iteration and step: who makes it does not matter.
	draw := seed.Unit(u.stream())
	pause := think[0] + time.Duration(draw*float64(think[1]-think[0]))
	u.state = userThinking
	u.addThinking(1)
	u.turn++
	turn := u.turn
	u.loop.timers.add(now+pause, func(at time.Duration) {
		if u.state == userThinking && u.turn == turn {
			u.addThinking(-1)
			u.due = at
			u.nextStep(at)
		}
	})
}

// addThinking counts users that think. A user of whose lanes some do is at work.
func (u *user) addThinking(n int64) {
	if !u.isLane() {
		u.thinking.Add(n)
	}
}

// nextStep makes the next step, if there is one.
func (u *user) nextStep(now time.Duration) {
	if u.journey != nil {
		u.advance(now)
		return
	}
	if u.isLast() {
		u.end(failure.None, now)
		return
	}
	u.at++
	u.startStep(now)
}

// isLast says whether no step comes after the one under way, in the iteration or in the
// lane's unit.
func (u *user) isLast() bool {
	if u.journey == nil {
		return u.script.single() || u.at == len(u.script.steps)-1
	}
	return !slices.ContainsFunc(u.journey.stack, func(f frame) bool { return f.at < len(f.nodes) || f.pass < f.passes-1 })
}

// end ends the iteration, or a lane's part of it.
func (u *user) end(kind failure.Kind, now time.Duration) {
	if u.isLane() {
		u.unitEnded(kind, now)
		return
	}
	u.turn++
	u.state, u.freeAt = userFree, now
	u.own++
	if trip := u.script.trip; trip != noTrip {
		u.loop.shard.addJourney(trip, u.open, u.began, now, kind)
	} else {
		u.loop.shard.addIteration(u.open, u.measured, now)
	}
	u.owner.released(u, kind)
}

// cut ends the iteration where it is, because its time is over. One that only thinks has
// not broken off: it had all that it asked for.
func (u *user) cut() {
	switch u.state {
	case userFree:
	case userForked:
		u.cutLanes()
	case userThinking:
		u.addThinking(-1)
		u.end(failure.None, u.loop.clock.now())
	case userReading:
		kind := failure.CutOff
		if u.isLast() {
			kind = failure.None
		}
		u.end(kind, u.loop.clock.now())
	case userWaiting:
		u.slots.leave(u)
		u.sent = u.loop.clock.now()
		u.done, u.unsent = u.sent, true
		u.answered(0, failure.CutOff, errCutOff)
	case userSending:
		u.link.abort(failure.CutOff, errCutOff)
	}
}

// refused is an iteration that ended with its first connection: intended for a
// time, and failed since.
func (u *user) refused(a load.Arrival, kind failure.Kind, err error) {
	u.number, u.open, u.waited, u.first = a.Number, false, false, true
	u.began, u.measured = a.At, a.At >= u.loop.run.from
	u.pick(a)
	u.intended, u.sent, u.done, u.wrote, u.got, u.unsent = a.At, a.At, u.freeAt, 0, 0, false
	u.answered(0, kind, err)
}
