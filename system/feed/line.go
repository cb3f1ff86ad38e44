package feed

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// line is an entry as a line of JSON has it.
type line struct {
	ID        int64         `json:"id"`
	Published *time.Time    `json:"published"`
	Title     string        `json:"title"`
	Text      string        `json:"text"`
	Pinned    bool          `json:"pinned"`
	Author    Author        `json:"author"`
	Media     []Medium      `json:"media,omitempty"`
	Reactions []Reaction    `json:"reactions,omitempty"`
	Comments  []lineComment `json:"comments,omitempty"`
}

// The others are written as everywhere.
type lineComment struct {
	Author    string     `json:"author"`
	Published *time.Time `json:"published"`
	Text      string     `json:"text"`
}

var errNoTime = errors.New("published of the post or of a comment is missing: write a time such as 2026-01-31T08:00:00Z")

func (l *line) entry() (Entry, error) {
	if l.Published == nil {
		return Entry{}, errNoTime
	}
	e := Entry{
		Post:   Post{ID: l.ID, Published: l.Published.UnixMilli(), Title: l.Title, Text: l.Text, Pinned: l.Pinned},
		Author: l.Author, Media: l.Media, Reactions: l.Reactions,
	}
	for _, c := range l.Comments {
		if c.Published == nil {
			return Entry{}, errNoTime
		}
		e.Comments = append(e.Comments, Comment{Author: c.Author, Published: c.Published.UnixMilli(), Text: c.Text})
	}
	e.Complete()
	return e, nil
}

// Line is the entry as one line of JSON, without a line break: what ParseLine reads.
func (e *Entry) Line() ([]byte, error) {
	at := func(published int64) *time.Time {
		t := time.UnixMilli(published).UTC()
		return &t
	}
	l := line{ID: e.ID, Published: at(e.Published), Title: e.Title, Text: e.Text, Pinned: e.Pinned, Author: e.Author, Media: e.Media, Reactions: e.Reactions}
	for _, c := range e.Comments {
		l.Comments = append(l.Comments, lineComment{c.Author, at(c.Published), c.Text})
	}
	return json.Marshal(&l)
}

// ParseLine reads an entry from JSON, such as Line's. Whether it is valid is Validate's business. The error says
// what to write instead.
func ParseLine(text []byte) (Entry, error) {
	var l line
	if err := json.Unmarshal(text, &l, json.RejectUnknownMembers(true)); err != nil {
		return Entry{}, plainly(err)
	}
	return l.entry()
}

// plainly says what is wrong with JSON, and where, without the library's types.
func plainly(err error) error {
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("byte %d: %w: write one JSON object a line", syntactic.ByteOffset+1, syntactic.Err)
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		where := string(semantic.JSONPointer)
		switch {
		case errors.Is(semantic.Err, json.ErrUnknownName):
			return fmt.Errorf("%.80q is not known: leave it out", where)
		case where == "":
			return errors.New("this is no post: write one JSON object a line")
		}
		return fmt.Errorf("%.80q has the wrong kind of value: write a time as 2026-01-31T08:00:00Z, and numbers without quotes", where)
	}
	return err
}
