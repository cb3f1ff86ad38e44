package chat

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestWhatIsSentIsChecked(t *testing.T) {
	t.Parallel()
	form := func(id, text string) string {
		body, _ := json.Marshal(map[string]any{"type": "send", "id": id, "text": text})
		return string(body)
	}
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"plain":                 {form("a-1", "hello"), nil},
		"longest":               {form(strings.Repeat("x", MaxID), strings.Repeat("😀", MaxText)), nil},
		"right to left":         {form("a", "\u200fשלום"), nil},
		"joined emoji":          {form("a", "👩\u200d👩\u200d👧"), nil},
		"unknown member":        {`{"type":"send","id":"a","text":"b","color":1}`, nil},
		"too long":              {form("a", strings.Repeat("x", MaxText+1)), ErrTooLong},
		"empty":                 {form("a", ""), ErrText},
		"only spaces":           {form("a", " \u3000 "), ErrText},
		"only what is not seen": {form("a", "\u200b\u200f"), ErrText},
		"escape":                {form("a", "\x1b[2J"), ErrText},
		"line":                  {form("a", "a\nb"), ErrText},
		"no id":                 {form("", "x"), ErrID},
		"long id":               {form(strings.Repeat("x", MaxID+1), "x"), ErrID},
		"id with a space":       {form("a b", "x"), ErrID},
		"another type":          {`{"type":"ack","id":"a","text":"b"}`, ErrRequest},
		"no type":               {`{"id":"a","text":"b"}`, ErrRequest},
		"nothing":               {``, ErrRequest},
		"a list":                {`[]`, ErrRequest},
		"cut short":             {`{"type":"send","id":"a"`, ErrRequest},
		"a member twice":        {`{"type":"send","id":"a","text":"b","text":"c"}`, ErrRequest},
		"a number":              {`{"type":"send","id":"a","text":1}`, ErrRequest},
		"half a surrogate":      {`{"type":"send","id":"a","text":"\ud800"}`, ErrRequest},
		"sender in the payload": {`{"type":"send","id":"a","text":"b","sender":"admin","offset":7}`, nil},
	} {
		got, err := ParseSend([]byte(c.body))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if c.want != nil && !errors.Is(c.want, ErrID) && !errors.Is(c.want, ErrRequest) && got.ID == "" {
			t.Errorf("%s: the refusal has no id", name)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{"Noor": true, "민수": true, "": false, "  ": false, strings.Repeat("x", MaxName+1): false, "a\tb": false} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

// The longest message there can be has its place in a room.
func TestTheLongestMessageFits(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"<", "\u2028", "😀", "\""} {
		m := Message{Offset: 1<<64 - 1, At: 1 << 62, Sender: strings.Repeat("x", MaxID), Name: strings.Repeat(c, MaxName), ID: strings.Repeat("x", MaxID), Text: strings.Repeat(c, MaxText), Mentions: slices.Repeat([]string{strings.Repeat("x", MaxID)}, MaxMentions)}
		if n := len(m.Append(nil)); n > MaxMessage {
			t.Errorf("%q: %d bytes", c, n)
		}
		body, _ := json.Marshal(map[string]string{"type": "send", "id": m.ID, "text": strings.Repeat(`😀`, MaxText)})
		if n := len(body); n > MaxRequest {
			t.Errorf("a request of %d bytes", n)
		}
	}
}

func FuzzParseSend(f *testing.F) {
	f.Add(`{"type":"send","id":"a","text":"b"}`)
	f.Add(`{"type":"send","id":"a","text":"\ud83d\ude00"}`)
	f.Fuzz(func(t *testing.T, body string) {
		send, err := ParseSend([]byte(body))
		if err != nil {
			return
		}
		m := Message{Offset: 1, Sender: "s", Name: "n", ID: send.ID, Text: send.Text}
		if got, err := ParseMessage(m.Append(nil)); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("got %+v, %v, want %+v", got, err, m)
		}
	})
}
