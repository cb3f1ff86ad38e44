// Package moderation is what the hosts of a stream can ask for, as rules without a server: who
// may say what in a room, who may change that, and what is to be stored of it.
//
// A Room is made of named records (settings, who is barred, who is a moderator, what is
// pinned). An action is first only planned: Plan says which records it changes. Whoever has
// stored them hands them to Load, and so does who reads them after a start. There is one way
// into a Room, and nothing is in force that a crash takes back.
//
//	Action ── Plan ──► Change ──► the log, synced ──► Load ──► Check of the next message
//
// What is only counted, such as when somebody spoke last in slow mode, is not stored. All of
// it is bounded.
package moderation

import (
	"loadstone/system/chat"
)

// The failures of this package.
var (
	// ErrBanned: the user may not see or say anything in the room.
	ErrBanned = &chat.Error{Code: "banned", Message: "you are banned from this chat"}
	// ErrTimedOut: the user may say nothing for a while.
	ErrTimedOut = &chat.Error{Code: "timed_out", Message: "you may say nothing here for a while"}
	// ErrSlow: the user has said something a moment ago.
	ErrSlow = &chat.Error{Code: "slow_mode", Message: "this chat is slow: wait until you say something again"}
	// ErrFollowers: only those who follow the host may speak.
	ErrFollowers = &chat.Error{Code: "followers_only", Message: "only followers may say something here now"}
	// ErrSubscribers: only those who have subscribed may speak.
	ErrSubscribers = &chat.Error{Code: "subscribers_only", Message: "only subscribers may say something here now"}
	// ErrEmotes: a message has something else than emoji.
	ErrEmotes = &chat.Error{Code: "emotes_only", Message: "only emoji may be said here now"}
	// ErrUnique: somebody has just said the same.
	ErrUnique = &chat.Error{Code: "not_unique", Message: "this has just been said: write something else"}
	// ErrWord: a message has a word of the host's list.
	ErrWord = &chat.Error{Code: "blocked_word", Message: "this has a word that is not said here"}
	// ErrRole: the user has not the role for it.
	ErrRole = &chat.Error{Code: "not_moderator", Message: "only hosts and moderators of this stream may do this, and not to a host or to their own kind"}
	// ErrAction: an action is not in the form of the contract. Errors that wrap it say what is wrong.
	ErrAction = &chat.Error{Code: "bad_action", Message: "this is no action"}
	// ErrNoMessage: there is no such message.
	ErrNoMessage = &chat.Error{Code: "no_message", Message: "there is no such message"}
	// ErrMany: there is a bound, and it is reached.
	ErrMany = &chat.Error{Code: "too_many_entries", Message: "the list is full: take something from it"}
	// ErrReaction: there is no such reaction.
	ErrReaction = &chat.Error{Code: "bad_reaction", Message: `there is no such reaction: send {"type":"react","kind":"heart"}, or laugh, clap, wow, sad or fire`}
)

// Role is what somebody is in a stream.
type Role string

// The roles.
const (
	Viewer    Role = ""
	Moderator Role = "moderator"
	Host      Role = "host"
)

// above reports whether one with the role may moderate one with the other.
func (r Role) above(other Role) bool {
	return r == Host && other != Host || r == Moderator && other == Viewer
}

// Speaker is what a room asks about somebody who wants to say something.
type Speaker struct {
	User string
	// Role is what somebody is without having been appointed, see Room.Role.
	Role                Role
	Follows, Subscribed bool
}
