package moderation

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"loadstone/system/chat"
)

// Bounds of what is kept of a room.
const (
	MaxBarred     = 10_000
	MaxModerators = 50
	// MaxDeleted are the last deletions that who comes back is told.
	MaxDeleted = 200
	MaxReason  = 200 // characters
	// MaxTimeout is the longest time out, in seconds: two weeks.
	MaxTimeout = 14 * 24 * 3600
)

// Kind is what an action does.
type Kind string

// The kinds of actions, and what of an Action each has.
const (
	Delete  Kind = "delete"   // Offset
	Pin     Kind = "pin"      // Offset
	Unpin   Kind = "unpin"    //
	Timeout Kind = "timeout"  // User, Seconds, Reason; who is banned stays so
	Ban     Kind = "ban"      // User, Reason; who was a moderator is none any more
	Unban   Kind = "unban"    // User; it ends a time out, too
	Set     Kind = "settings" // Settings
	Appoint Kind = "appoint"  // User: is a moderator from now on, and no longer barred
	Dismiss Kind = "dismiss"  // User: is none any more
)

// Kinds are all kinds.
func Kinds() []Kind { return []Kind{Delete, Pin, Unpin, Timeout, Ban, Unban, Set, Appoint, Dismiss} }

// Action is what a host or a moderator asks for.
type Action struct {
	Kind     Kind      `json:"action"`
	Offset   *uint64   `json:"offset,omitempty"`
	User     string    `json:"user,omitempty"`
	Seconds  int       `json:"seconds,omitzero"`
	Reason   string    `json:"reason,omitempty"`
	Settings *Settings `json:"settings,omitempty"`
}

// ParseAction reads an action, and checks it. Members that its kind does not have are left out. Errors wrap ErrAction.
func ParseAction(data []byte) (Action, error) {
	var a Action
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("%w that can be read: %w", ErrAction, err)
	}
	a = a.own()
	if err := a.validate(); err != nil {
		return a, fmt.Errorf("%w: %w", ErrAction, err)
	}
	return a, nil
}

// own is an action with nothing but what its kind has: the rest is not checked, and must not be in the log.
func (a *Action) own() Action {
	b := Action{Kind: a.Kind}
	switch a.Kind {
	case Delete, Pin:
		b.Offset = a.Offset
	case Timeout:
		b.User, b.Seconds, b.Reason = a.User, a.Seconds, a.Reason
	case Ban:
		b.User, b.Reason = a.User, a.Reason
	case Unban, Appoint, Dismiss:
		b.User = a.User
	case Set:
		b.Settings = a.Settings
	case Unpin:
	}
	return b
}

func (a *Action) validate() error {
	toMessage, toUser := a.Kind == Delete || a.Kind == Pin, slices.Contains([]Kind{Timeout, Ban, Unban, Appoint, Dismiss}, a.Kind)
	switch {
	case !slices.Contains(Kinds(), a.Kind):
		return fmt.Errorf("action is %q: write one of %q", a.Kind, Kinds())
	case toMessage && a.Offset == nil:
		return fmt.Errorf("%s has no offset: write that of the message", a.Kind)
	case toUser && !chat.ValidID(a.User):
		return fmt.Errorf("user is %q: write the sender of a message", a.User)
	case a.Kind == Timeout && (a.Seconds < 1 || a.Seconds > MaxTimeout):
		return fmt.Errorf("seconds is %d: write 1 to %d", a.Seconds, MaxTimeout)
	case utf8.RuneCountInString(a.Reason) > MaxReason || strings.ContainsFunc(a.Reason, func(r rune) bool { return r < ' ' }):
		return fmt.Errorf("a reason has %d characters at most, on one line", MaxReason)
	case a.Kind == Set && a.Settings == nil:
		return fmt.Errorf("%s has no settings: write all of them", a.Kind)
	case a.Kind == Set:
		return a.Settings.Validate()
	}
	return nil
}

// onlyHost reports whether moderators may not do it.
func (a *Action) onlyHost() bool { return a.Kind == Set || a.Kind == Appoint || a.Kind == Dismiss }

// Actor is who asks for an action.
type Actor struct {
	User, Name string
	Role       Role
}

// Entry is a line of the log of who did what. The words of a list are not in it.
type Entry struct {
	// Number counts a stream's entries from 0.
	Number uint64 `json:"number"`
	At     int64  `json:"at"` // milliseconds since 1970
	By     string `json:"by"`
	Name   string `json:"name"` // of By, then

	Action
}

// Bar is why somebody may not speak.
type Bar struct {
	// Until is when it ends, in milliseconds since 1970: 0 for a ban, which has no end.
	Until  int64  `json:"until"`
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

func (b Bar) over(now time.Time) bool { return b.Until != 0 && now.UnixMilli() >= b.Until }

// seconds are how many are left of it.
func (b Bar) seconds(now time.Time) int {
	return int(math.Ceil(time.UnixMilli(b.Until).Sub(now).Seconds()))
}

// Change is what is to be stored together for an action.
type Change struct {
	// Records are those of the room that change, by name. Nil means that there is none any more.
	Records map[string][]byte
	// Entry is for the log, without its number.
	Entry Entry
	// Deletes says that the text of the message at Entry.Offset is no longer kept.
	Deletes bool
}
