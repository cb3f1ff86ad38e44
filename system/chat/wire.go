package chat

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"loadstone/block/encode"
)

// Epoch names one log of messages. Offsets of different epochs cannot be compared: the log
// was lost, and another began.
type Epoch uint64

// String is the form on the wire.
func (e Epoch) String() string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(e)))
}

// Joined is the first that a viewer is told.
type Joined struct {
	Epoch Epoch
	// Next is the offset of the first message that follows: in the history, or missed.
	Next uint64
	// Recovered says that the viewer named a place in this log, and nothing is left out
	// from there on but what a notice says.
	Recovered bool
	User      string
	Name      string
	// Role is what the user is in the room: empty for a viewer.
	Role string
}

// Append appends it as it is on the wire.
func (j *Joined) Append(dst []byte) []byte {
	dst = append(append(dst, `{"type":"joined","epoch":"`...), j.Epoch.String()...)
	dst = strconv.AppendUint(append(dst, `","next":`...), j.Next, 10)
	dst = strconv.AppendBool(append(dst, `,"recovered":`...), j.Recovered)
	dst = encode.String(append(dst, `,"user":`...), j.User)
	dst = encode.String(append(dst, `,"name":`...), j.Name)
	if j.Role != "" {
		dst = encode.String(append(dst, `,"role":`...), j.Role)
	}
	return append(dst, '}')
}

// AppendAck appends what a sender is told whose message is durable.
func AppendAck(dst []byte, id string, offset uint64) []byte {
	dst = encode.String(append(dst, `{"type":"ack","id":`...), id)
	return append(strconv.AppendUint(append(dst, `,"offset":`...), offset, 10), '}')
}

// AppendAccepted appends what a sender is told whose message is durable and has its place later, from
// whichever of several servers: with the place it is in what all see.
func AppendAccepted(dst []byte, id string) []byte {
	return append(encode.String(append(dst, `{"type":"ack","id":`...), id), '}')
}

// AppendRefusal appends what a sender is told whose message was not accepted. The id is empty where it
// could not be read.
func AppendRefusal(dst []byte, id string, e *Error) []byte {
	return append(appendRefusal(dst, id, e), '}')
}

// AppendLater is AppendRefusal where it would be accepted after some time.
func AppendLater(dst []byte, id string, l *WaitError) []byte {
	dst = append(appendRefusal(dst, id, l.Err), `,"seconds":`...)
	return append(strconv.AppendInt(dst, int64(l.Seconds), 10), '}')
}

func appendRefusal(dst []byte, id string, e *Error) []byte {
	dst = encode.String(append(dst, `{"type":"error","id":`...), id)
	dst = encode.String(append(dst, `,"code":`...), e.Code)
	return encode.String(append(dst, `,"message":`...), e.Message)
}

// The parts of frames of messages.
const (
	messagesStart = `{"type":"messages","messages":[`
	messagesEnd   = `]}`
)

// appendSkipped appends what a viewer is told who was too slow: so many messages were left out.
func appendSkipped(dst []byte, count uint64) []byte {
	return append(strconv.AppendUint(append(dst, `{"type":"skipped","count":`...), count, 10), '}')
}
