package activity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxBody bounds a request's body in bytes. It has room for the largest activity
// with each byte of its details escaped.
const MaxBody = 6*MaxDetails + 2<<10

// wire is an activity in JSON.
type wire struct {
	ID      string    `json:"id"`
	User    string    `json:"user"`
	Kind    string    `json:"kind"`
	At      time.Time `json:"at"`
	Details string    `json:"details,omitempty"`
}

// Decode reads a valid activity from JSON. The error is for the client: it says
// what is wrong, where, and what to write.
func Decode(body []byte) (Activity, error) {
	if len(body) > MaxBody {
		return Activity{}, fmt.Errorf("the activity has %d bytes of JSON; write at most %d", len(body), MaxBody)
	}
	// encoding/json would put other characters in place of what is no UTF-8, and
	// the activity would not come back as it was sent.
	if !utf8.Valid(body) {
		return Activity{}, errors.New("the activity is not UTF-8; write JSON in UTF-8")
	}
	var w wire
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&w); err != nil {
		return Activity{}, explain(body, decoder.InputOffset(), err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Activity{}, fmt.Errorf("%s: there is more after the activity; write one JSON object", place(body, decoder.InputOffset()))
	}
	a := Activity{ID: w.ID, User: w.User, Kind: w.Kind, At: w.At.UTC(), Details: w.Details}
	return a, a.Validate()
}

// explain says what a decoder's error means for the client.
func explain(body []byte, offset int64, err error) error {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	var when *time.ParseError
	const form = `; write {"id":"order-4711","user":"abebe","kind":"order","at":"2026-05-31T18:30:00Z","details":"two coffees"}`
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s: this is not JSON%s", place(body, syntax.Offset), form)
	case errors.As(err, &wrong) && wrong.Field != "":
		return fmt.Errorf("%s: %s is a JSON %s; write a text in quotes", place(body, wrong.Offset), wrong.Field, wrong.Value)
	case errors.As(err, &wrong):
		return fmt.Errorf("%s: this is a JSON %s%s", place(body, wrong.Offset), wrong.Value, form)
	case errors.As(err, &when), strings.Contains(err.Error(), "Time."):
		return errors.New(`at is no time; write it like "2026-05-31T18:30:00.250Z"`)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: the JSON ends too early%s", place(body, int64(len(body))), form)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("%s: an activity has no %s%s", place(body, offset), name, form)
	}
	return fmt.Errorf("%s: this is no activity%s", place(body, offset), form)
}

// place is where in the body a byte is, as line and column from 1.
func place(body []byte, offset int64) string {
	before := body[:min(max(offset, 0), int64(len(body)))]
	line := bytes.Count(before, []byte{'\n'})
	column := len(before) - (bytes.LastIndexByte(before, '\n') + 1)
	return fmt.Sprintf("line %d, column %d", line+1, max(column, 1))
}

// Encode returns the activity as JSON. Decode reads it back.
func Encode(a *Activity) ([]byte, error) {
	text, err := json.Marshal(wire{a.ID, a.User, a.Kind, a.At.UTC(), a.Details})
	if err != nil { // a year that RFC 3339 does not have
		return nil, fmt.Errorf("encode activity %s: %w", a.ID, err)
	}
	return text, nil
}
