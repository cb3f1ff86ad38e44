package chat

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/go-json-experiment/json"
)

// Raw is a message that was accepted and has no place in its room yet: what several servers
// write to the topic raw-chats.
type Raw struct {
	Stream int64 `json:"stream"`

	// Message has no Offset.
	Message `json:",inline"`
}

// Append appends it as it is on the topic: the message on the wire with its stream in place of
// its offset.
func (r *Raw) Append(dst []byte) []byte {
	return r.AppendUnplaced(strconv.AppendInt(append(dst, `{"stream":`...), r.Stream, 10))
}

// errRaw is what the errors of ParseRaw wrap.
var errRaw = errors.New("it is no message of a chat")

// ParseRaw reads a record of the topic raw-chats, and refuses what no server has written. Members that
// are unknown are left out.
func ParseRaw(data []byte) (Raw, error) {
	var r Raw
	if err := json.Unmarshal(data, &r); err != nil {
		return Raw{}, fmt.Errorf("%w: %w", errRaw, err)
	}
	for _, user := range r.Mentions {
		if !ValidID(user) {
			return Raw{}, fmt.Errorf("%w: it mentions %.70q", errRaw, user)
		}
	}
	var err error
	switch {
	case r.Stream < 1 || r.Stream > MaxStream:
		err = fmt.Errorf("its stream is %d", r.Stream)
	case r.At < 1 || r.At > MaxStream:
		err = fmt.Errorf("its time is %d", r.At)
	case !ValidID(r.Sender), !ValidID(r.ID):
		err = fmt.Errorf("its sender is %.70q, and its id %.70q", r.Sender, r.ID)
	case len(r.Mentions) > MaxMentions:
		err = fmt.Errorf("it mentions %d users", len(r.Mentions))
	case r.Deleted:
		err = errors.New("it is deleted")
	default:
		if err = CheckName(r.Name); err == nil {
			err = checkText(r.Text)
		}
	}
	if err != nil {
		return Raw{}, fmt.Errorf("%w: %w", errRaw, err)
	}
	r.Offset = 0 // a record's own, if there is one, means nothing
	return r, nil
}

// Lanes are the lanes of a room.
const Lanes = 64

// Lane is the key of the record's partition. What one sender says in a room is in one lane, in its
// order; a room has many lanes, so that a hot one is not one partition. The order of all is that of
// the places that they get later.
func (r *Raw) Lane() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(r.Sender)) // it never fails
	return strconv.FormatInt(r.Stream, 10) + "." + strconv.FormatUint(uint64(h.Sum32()%Lanes), 10)
}
