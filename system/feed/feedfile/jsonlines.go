package feedfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"loadstone/system/feed"
)

// wire is a post as a line has it.
type wire struct {
	ID        int64      `json:"id"`
	Published *time.Time `json:"published"`
	Title     string     `json:"title"`
	Text      string     `json:"text"`
	Pinned    bool       `json:"pinned"`
	Author    struct {
		ID    int64  `json:"id"`
		Name  string `json:"name"`
		Role  string `json:"role"`
		Team  string `json:"team"`
		About string `json:"about"`
		Photo string `json:"photo"`
	} `json:"author"`
	Media []struct {
		Kind   string `json:"kind"`
		URL    string `json:"url"`
		Alt    string `json:"alt"`
		Width  int    `json:"width"`
		Height int    `json:"height"`
	} `json:"media"`
	Reactions []struct {
		Kind  string `json:"kind"`
		Count int64  `json:"count"`
	} `json:"reactions"`
	Comments []struct {
		Author    string     `json:"author"`
		Published *time.Time `json:"published"`
		Text      string     `json:"text"`
	} `json:"comments"`
}

var errNoTime = errors.New("published of the post or of a comment is missing: write a time such as 2026-01-31T08:00:00Z")

func (w *wire) entry() (feed.Entry, error) {
	if w.Published == nil {
		return feed.Entry{}, errNoTime
	}
	e := feed.Entry{
		Post:   feed.Post{ID: w.ID, Published: w.Published.UnixMilli(), Title: w.Title, Text: w.Text, Pinned: w.Pinned},
		Author: feed.Author{ID: w.Author.ID, Name: w.Author.Name, Role: w.Author.Role, Team: w.Author.Team, About: w.Author.About, Photo: w.Author.Photo},
	}
	for _, m := range w.Media {
		e.Media = append(e.Media, feed.Medium{Kind: m.Kind, URL: m.URL, Alt: m.Alt, Width: m.Width, Height: m.Height})
	}
	for _, r := range w.Reactions {
		e.Reactions = append(e.Reactions, feed.Reaction{Kind: r.Kind, Count: r.Count})
	}
	for _, c := range w.Comments {
		if c.Published == nil {
			return feed.Entry{}, errNoTime
		}
		e.Comments = append(e.Comments, feed.Comment{Author: c.Author, Published: c.Published.UnixMilli(), Text: c.Text})
	}
	e.Complete()
	return e, nil
}

// jsonLines reads a post a line.
type jsonLines struct {
	scan *bufio.Scanner
	line int
}

func newJSONLines(content io.Reader) decoder {
	d := &jsonLines{scan: bufio.NewScanner(content)}
	d.scan.Buffer(nil, MaxLineBytes)
	return d
}

func (d *jsonLines) next() (feed.Entry, int, error) {
	for d.scan.Scan() {
		d.line++
		text := bytes.TrimSpace(d.scan.Bytes())
		if len(text) == 0 {
			continue
		}
		var w wire
		if err := json.Unmarshal(text, &w, json.RejectUnknownMembers(true)); err != nil {
			return feed.Entry{}, d.line, mistake{plainly(err)}
		}
		e, err := w.entry()
		if err != nil {
			err = mistake{err}
		}
		return e, d.line, err
	}
	err := d.scan.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return feed.Entry{}, 0, fmt.Errorf("%w: line %d has more than %d bytes: write a shorter one", feed.ErrInput, d.line+1, MaxLineBytes)
	}
	if err == nil {
		err = io.EOF
	}
	return feed.Entry{}, 0, err
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
