// Package replay reads a stream's messages back at the time of its video.
//
// The place in the log for a time is found by the spans that the analysis has noted: the
// number of a span is its time, and it has the offset of its first message. From there on the
// log is read, a page at a time. Where the analysis has not been yet there is more to read, and the
// result is the same.
package replay

import (
	"encoding/json"
	"fmt"

	"loadstone/system/chat"
	"loadstone/system/chat/analysis"
)

// Log is the log of the chat.
type Log interface {
	Notes(stream int64, which chat.NoteRange) ([]chat.Note, error)
	// Read returns messages from an offset on, in order: one at least if there is one, and most at most.
	Read(stream int64, from uint64, most int) ([]chat.Encoded, error)
}

// Message is one with its time in the video.
type Message struct {
	// Video is in milliseconds since the start. It does not go back where the clock did.
	Video int64
	chat.Message
}

// Place is where a reader is. The zero value is the start.
type Place struct {
	Offset uint64
	// Video is the least time of the message there.
	Video int64
}

// Reader reads a stream.
type Reader struct {
	log    Log
	stream chat.Stream
	place  Place
}

// pageSize is how many messages are read at once.
const pageSize = 100

// New returns a reader at a place that Place has returned.
func New(log Log, stream chat.Stream, at Place) *Reader {
	return &Reader{log: log, stream: stream, place: at}
}

// Place is where the reader is: before the first message that it has not returned.
func (r *Reader) Place() Place { return r.place }

// Find goes to before the first message of a time or later.
func (r *Reader) Find(video int64) error {
	r.place = Place{}
	last, err := r.log.Notes(r.stream.ID, chat.NoteRange{Topic: chat.NoteSpan, To: uint64(max(0, video)/analysis.SpanMillis) + 1, Most: 1, Newest: true})
	if err != nil {
		return err
	}
	if len(last) > 0 {
		var s analysis.Span
		if err := json.Unmarshal(last[0].Value, &s); err != nil {
			return fmt.Errorf("read a span of stream %d: %w", r.stream.ID, err)
		}
		r.place = Place{s.First, s.At * analysis.SpanMillis}
	}
	for {
		before := r.place
		page, err := r.page(pageSize)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, m := range page {
			if m.Video >= video {
				r.place = before
				return nil
			}
			before = Place{m.Offset + 1, m.Video}
		}
	}
}

// Next returns the next messages, most at most, without those that were deleted. There are none
// at the end of the log alone.
func (r *Reader) Next(most int) ([]Message, error) {
	for {
		page, err := r.page(most)
		if err != nil || len(page) == 0 {
			return nil, err
		}
		kept := page[:0]
		for _, m := range page {
			if m.Sender != "" && !m.Deleted {
				kept = append(kept, m)
			}
		}
		if len(kept) > 0 {
			return kept, nil
		}
	}
}

// page returns the next messages with those that were deleted. One that cannot be read has no sender.
func (r *Reader) page(most int) ([]Message, error) {
	found, err := r.log.Read(r.stream.ID, r.place.Offset, most)
	if err != nil {
		return nil, err
	}
	all := make([]Message, len(found))
	for i, f := range found {
		if m, err := chat.ParseMessage(f.Bytes); err == nil {
			all[i].Message = m
			r.place.Video = max(r.place.Video, m.At-r.stream.Started.UnixMilli())
		}
		all[i].Offset, all[i].Video = f.Offset, r.place.Video
		r.place.Offset = f.Offset + 1
	}
	return all, nil
}
