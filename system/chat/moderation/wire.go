package moderation

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"loadstone/block/encode"
	"loadstone/system/chat"
)

// AppendSettings appends what viewers are told of a room's settings.
func AppendSettings(dst []byte, s Settings) []byte {
	dst = strconv.AppendInt(append(dst, `{"type":"settings","slow":`...), int64(s.Slow), 10)
	dst = strconv.AppendBool(append(dst, `,"followers":`...), s.Followers)
	dst = strconv.AppendBool(append(dst, `,"subscribers":`...), s.Subscribers)
	dst = strconv.AppendBool(append(dst, `,"emotes":`...), s.Emotes)
	dst = strconv.AppendBool(append(dst, `,"unique":`...), s.Unique)
	return append(strconv.AppendInt(append(dst, `,"delay":`...), int64(s.Delay), 10), '}')
}

// AppendPinned appends the message that is pinned, as it is on the wire; nil for none.
func AppendPinned(dst, message []byte) []byte {
	if message == nil {
		message = []byte("null")
	}
	return append(append(append(dst, `{"type":"pinned","message":`...), message...), '}')
}

// AppendDeleted appends which messages were deleted.
func AppendDeleted(dst []byte, offsets ...uint64) []byte {
	dst = append(dst, `{"type":"deleted","offsets":[`...)
	for i, offset := range offsets {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, offset, 10)
	}
	return append(dst, `]}`...)
}

// AppendReactions appends what was counted in a window; kinds of which there were none are left out.
func AppendReactions(dst []byte, c *Counts) []byte {
	dst = append(dst, `{"type":"reactions","counts":{`...)
	for i, n := range c {
		if n == 0 {
			continue
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(encode.String(dst, kinds[i]), ':'), int64(n), 10)
	}
	return append(dst, `}}`...)
}

// AppendHeld appends messages that viewers do not see yet, for hosts and moderators.
func AppendHeld(dst []byte, messages [][]byte) []byte {
	dst = append(dst, `{"type":"held","messages":[`...)
	for i, m := range messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, m...)
	}
	return append(dst, `]}`...)
}

// AppendRole appends what somebody is from now on.
func AppendRole(dst []byte, role Role) []byte {
	return append(encode.String(append(dst, `{"type":"role","role":`...), string(role)), '}')
}

// AppendDone appends what somebody is told whose action is durable and in force.
func AppendDone(dst []byte, id string) []byte {
	return append(encode.String(append(dst, `{"type":"done","id":`...), id), '}')
}

// Welcome is what a viewer is told of the room after it has joined, a message each: what
// differs from a room in which nothing is set. Of deletions it is those before a place that the viewer
// has come back to.
func (r *Room) Welcome(recovered bool, next uint64) (all [][]byte) {
	if r.policy.Load() != nil {
		all = append(all, AppendSettings(nil, r.Settings()))
	}
	if pinned := r.Pinned(); pinned != nil {
		all = append(all, AppendPinned(nil, pinned))
	}
	if !recovered {
		return all
	}
	var seen []uint64
	for _, offset := range r.Deleted() {
		if offset < next {
			seen = append(seen, offset)
		}
	}
	if len(seen) > 0 {
		all = append(all, AppendDeleted(nil, seen...))
	}
	return all
}

// Request is what somebody asks for who does not send a message.
type Request struct {
	// Act is an action by its ID, or nil.
	Act *Action
	ID  string
	// React is the kind of a reaction.
	React string
}

// ParseRequest reads a request, and checks it. Members that are unknown are left out. The result
// has the id that was sent, if there was one that can be, also where there is an error.
func ParseRequest(data []byte) (Request, error) {
	var form struct {
		Type string `json:"type"`
		ID   string `json:"id"`
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(data, &form); err != nil {
		return Request{}, chat.ErrRequest
	}
	switch form.Type {
	case "react":
		return Request{React: form.Kind}, nil
	case "act":
		if !chat.ValidID(form.ID) {
			return Request{}, chat.ErrID
		}
		a, err := ParseAction(data)
		return Request{Act: &a, ID: form.ID}, err
	}
	return Request{}, chat.ErrRequest
}

// Held reports whether a message that was accepted at a time, in milliseconds, is not yet
// shown to viewers. One from the future is shown: then the clock was set back.
func Held(at int64, delay time.Duration, now time.Time) bool {
	age := now.UnixMilli() - at
	return age >= 0 && age < delay.Milliseconds()
}
