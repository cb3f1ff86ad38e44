package moderation

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/go-json-experiment/json"

	"loadstone/system/chat"
)

// The names of records, or what they begin with.
const (
	settingsRecord = "settings"
	pinRecord      = "pin"
	deletedRecord  = "deleted"
	barRecord      = "bar/"  // and a user
	roleRecord     = "role/" // and a user
)

// Room is the rules of a stream's chat. It is safe for concurrent use. Check waits for nothing but other calls
// of the same room.
type Room struct {
	policy atomic.Pointer[policy] // nil: everything may be said

	mu      sync.RWMutex
	barred  map[string]Bar
	roles   map[string]Role
	pinned  []byte   // a message on the wire
	deleted []uint64 // the last

	counting sync.Mutex
	last     map[string]spoken
	texts    recent[uint64, uint64] // hashes: what was said, and by whom with which id
	names    recent[string, string] // folded, and the users
}

// policy is settings, prepared.
type policy struct {
	Settings

	words *Words
}

// spoken is when somebody said something last, and by which id.
type spoken struct {
	at time.Time
	id string
}

// NewRoom returns a room in which nothing is restricted.
func NewRoom() *Room { return &Room{barred: map[string]Bar{}, roles: map[string]Role{}} }

// Load takes a record over: one that was stored, or nil where it no longer is.
func (r *Room) Load(name string, value []byte) error {
	if name == settingsRecord {
		return r.loadSettings(value)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	bar, isBar := strings.CutPrefix(name, barRecord)
	role, isRole := strings.CutPrefix(name, roleRecord)
	switch {
	case name == pinRecord:
		r.pinned = value
	case name == deletedRecord:
		r.deleted = nil
		return read(value, &r.deleted)
	case isBar && value == nil:
		delete(r.barred, bar)
	case isBar:
		var b Bar
		err := read(value, &b)
		r.barred[bar] = b
		return err
	case isRole && value == nil:
		delete(r.roles, role)
	case isRole:
		r.roles[role] = Role(value)
	}
	return nil
}

func (r *Room) loadSettings(value []byte) error {
	p := &policy{}
	err := read(value, &p.Settings)
	if err == nil {
		p.words, err = NewWords(p.Words)
	}
	if err == nil {
		r.policy.Store(p)
	}
	return err
}

func read(value []byte, into any) error {
	if value == nil {
		return nil
	}
	return json.Unmarshal(value, into)
}

// Settings are those in force.
func (r *Room) Settings() Settings {
	if p := r.policy.Load(); p != nil {
		return p.Settings
	}
	return Settings{}
}

// Delay is how long messages are held back from viewers.
func (r *Room) Delay() time.Duration {
	if p := r.policy.Load(); p != nil {
		return time.Duration(p.Delay) * time.Second
	}
	return 0
}

// Role is what a user is in the room, who is own without having been appointed.
func (r *Room) Role(user string, own Role) Role {
	if own == Host {
		return Host
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if role := r.roles[user]; role != Viewer {
		return role
	}
	return own
}

// Enter is an error if the user may not even read.
func (r *Room) Enter(who *Speaker) error {
	if who.Role != Host && r.banned(who.User) {
		return ErrBanned
	}
	return nil
}

// banned reports whether somebody is barred without an end.
func (r *Room) banned(user string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	b, ok := r.barred[user]
	return ok && b.Until == 0
}

// React is an error if the user may not even react.
func (r *Room) React(now time.Time, who *Speaker) error {
	return r.barredNow(now, who.User, who.Role)
}

// Check decides whether somebody may say something now. It is an *chat.Error, or a
// *chat.WaitError where it may be said after some time. The same message again, by its id, passes
// what is only counted. Hosts may say everything, and so may moderators who are not barred.
func (r *Room) Check(now time.Time, who *Speaker, m *chat.Send) error {
	if err := r.barredNow(now, who.User, who.Role); err != nil {
		return err
	}
	p := r.policy.Load()
	if p == nil || r.Role(who.User, who.Role) != Viewer {
		return nil
	}
	switch {
	case p.Subscribers && !who.Subscribed:
		return ErrSubscribers
	case p.Followers && !who.Follows && !who.Subscribed:
		return ErrFollowers
	case p.Emotes && !onlyEmoji(m.Text):
		return ErrEmotes
	}
	return r.checkText(now, p, who.User, m)
}

// checkText applies what depends on the words of a message, or on what was said before.
func (r *Room) checkText(now time.Time, p *policy, user string, m *chat.Send) error {
	var folded []rune
	if len(p.Words) > 0 || p.Unique {
		folded = Fold(m.Text)
	}
	if p.words.In(folded) {
		return ErrWord
	}
	if !p.Unique && p.Slow == 0 {
		return nil
	}
	return r.count(now, p, user, m.ID, folded)
}

// barredNow is an error if the user, who is own without having been appointed, may not do anything.
func (r *Room) barredNow(now time.Time, user string, own Role) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	switch b, ok := r.barred[user]; {
	case own == Host || !ok || b.over(now):
		return nil
	case b.Until == 0:
		return ErrBanned
	default:
		return &chat.WaitError{Err: ErrTimedOut, Seconds: b.seconds(now)}
	}
}

// count applies what depends on what was said before, and counts the message if it passes.
func (r *Room) count(now time.Time, p *policy, user, id string, folded []rune) error {
	r.counting.Lock()
	defer r.counting.Unlock()
	slow := time.Duration(p.Slow) * time.Second
	if before, ok := r.last[user]; ok && before.id != id && now.Sub(before.at) < slow {
		return &chat.WaitError{Err: ErrSlow, Seconds: int(math.Ceil((slow - now.Sub(before.at)).Seconds()))}
	}
	if p.Unique {
		by := xxhash.Sum64String(user + " " + id)
		if r.texts.add(xxhash.Sum64String(string(folded)), by, recentTexts) != by {
			return ErrUnique
		}
	}
	if slow > 0 {
		r.speak(now, slow, user, id)
	}
	return nil
}

// recentTexts are how many texts are remembered that may not be said again.
const recentTexts = 500

// maxSpoken bounds who is remembered in slow mode, some 5 MB. Beyond, it fails open.
const maxSpoken = 50_000

func (r *Room) speak(now time.Time, slow time.Duration, user, id string) {
	if r.last == nil {
		r.last = map[string]spoken{}
	}
	if len(r.last) >= maxSpoken {
		for name, s := range r.last {
			if now.Sub(s.at) >= slow {
				delete(r.last, name)
			}
		}
		if len(r.last) > maxSpoken/2 {
			clear(r.last)
		}
	}
	r.last[user] = spoken{now, id}
}

// Forget frees what is only counted, for a room in which nobody is.
func (r *Room) Forget() {
	r.counting.Lock()
	defer r.counting.Unlock()
	r.last, r.texts, r.names = nil, recent[uint64, uint64]{}, recent[string, string]{}
}

// Pinned is the message that is pinned, on the wire, or nil.
func (r *Room) Pinned() []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.pinned
}

// Deleted are the offsets of the last messages that were deleted.
func (r *Room) Deleted() []uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.deleted)
}

// Barring are all who may not speak at a time.
func (r *Room) Barring(now time.Time) map[string]Bar {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := map[string]Bar{}
	for user, b := range r.barred {
		if !b.over(now) {
			all[user] = b
		}
	}
	return all
}

// Plan says what an action changes, and whether it may be done. The message is that of a.Offset,
// if the action is about one. own is what the user that it is about, or the message's sender, is without having been
// appointed. There must be no other between Plan and the Load of its records.
func (r *Room) Plan(now time.Time, by Actor, a *Action, message *chat.Message, own Role) (*Change, error) {
	if err := r.may(now, by, a, message, own); err != nil {
		return nil, err
	}
	c := &Change{Records: map[string][]byte{}, Entry: Entry{At: now.UnixMilli(), By: by.User, Name: by.Name, Action: *a}}
	var err error
	switch a.Kind {
	case Delete, Pin:
		err = r.planMessage(c, a, message)
	case Unpin:
		c.Records[pinRecord] = nil
	case Timeout, Ban:
		if a.Kind == Timeout && r.banned(a.User) {
			break // it would end the ban
		}
		err = r.planBar(c, now, by, a)
	case Unban:
		c.Records[barRecord+a.User] = nil
	case Set:
		c.Records[settingsRecord], err = json.Marshal(a.Settings)
		public := a.Settings.public()
		c.Entry.Settings = &public
	case Appoint:
		err = r.planRole(c, a.User)
	case Dismiss:
		c.Records[roleRecord+a.User] = nil
	}
	return c, err
}

// may is an error if an action may not be done.
func (r *Room) may(now time.Time, by Actor, a *Action, message *chat.Message, own Role) error {
	role := r.Role(by.User, by.Role)
	if role == Viewer || a.onlyHost() && role != Host {
		return ErrRole
	}
	about := a.User
	if a.Kind == Delete || a.Kind == Pin {
		if message == nil || message.Deleted {
			return ErrNoMessage
		}
		if a.Kind == Delete && message.Sender != by.User { // what one has said oneself is one's own
			about = message.Sender
		}
	}
	if about != "" && !role.above(r.Role(about, own)) {
		return ErrRole
	}
	return r.barredNow(now, by.User, by.Role)
}

func (r *Room) planMessage(c *Change, a *Action, message *chat.Message) (err error) {
	c.Entry.User = message.Sender
	if a.Kind == Pin {
		c.Records[pinRecord] = message.Append(nil)
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	last := append(slices.Clone(r.deleted), message.Offset)
	if c.Records[deletedRecord], err = json.Marshal(last[max(0, len(last)-MaxDeleted):]); err != nil {
		return err
	}
	if pinned, err := chat.ParseMessage(r.pinned); err == nil && pinned.Offset == message.Offset {
		c.Records[pinRecord] = nil
	}
	c.Deletes = true
	return nil
}

func (r *Room) planBar(c *Change, now time.Time, by Actor, a *Action) error {
	b := Bar{By: by.User, Reason: a.Reason}
	if a.Kind == Ban {
		c.Records[roleRecord+a.User] = nil
	} else {
		b.Until = now.Add(time.Duration(a.Seconds) * time.Second).UnixMilli()
	}
	value, err := json.Marshal(b)
	if err != nil {
		return err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	left := len(r.barred)
	if left >= MaxBarred {
		for user, have := range r.barred {
			if have.over(now) {
				c.Records[barRecord+user] = nil
				left--
			}
		}
	}
	if _, again := r.barred[a.User]; !again && left >= MaxBarred {
		return fmt.Errorf("%w: %d are barred", ErrMany, left)
	}
	c.Records[barRecord+a.User] = value
	return nil
}

func (r *Room) planRole(c *Change, user string) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.roles) >= MaxModerators {
		return fmt.Errorf("%w: %d have been appointed", ErrMany, len(r.roles))
	}
	c.Records[roleRecord+user], c.Records[barRecord+user] = []byte(Moderator), nil
	return nil
}
