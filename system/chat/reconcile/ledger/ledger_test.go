package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"loadstone/system/chat"
)

const epoch = "0123456789abcdef"

// said is message number n of a room.
func said(n uint64) chat.Message {
	return chat.Message{Offset: n, Sender: "noor", Name: "Noor", ID: fmt.Sprint("m", n), Text: fmt.Sprint("text ", n)}
}

func log(length uint64) (all []chat.Message) {
	for n := range length {
		all = append(all, said(n))
	}
	return all
}

// books are those of a chat of six messages, all acked, with two viewers: all is well.
type books struct {
	*Ledger

	one, two *Viewer
	log      []chat.Message
	epoch    string
	analysed bool
}

func open() *books {
	l := New()
	b := &books{Ledger: l, one: l.Viewer(1, "viewer 1"), two: l.Viewer(1, "viewer 2"), log: log(6), epoch: epoch}
	for _, m := range b.log {
		b.Acked(1, &m)
	}
	b.one.Joined(epoch, 0, false)
	b.two.Joined(epoch, 3, false)
	b.sees(b.two, 3, 4, 5)
	return b
}

func (b *books) sees(v *Viewer, offsets ...uint64) {
	for _, n := range offsets {
		m := said(n)
		v.Saw(&m)
	}
}

// others has somebody else say message 6, which all see.
func (b *books) others() {
	b.log = append(b.log, said(6))
	b.sees(b.one, 0, 1, 2, 3, 4, 5, 6)
	b.sees(b.two, 6)
}

func (b *books) ack(sender, id string, offset uint64) {
	b.Acked(1, &chat.Message{Sender: sender, ID: id, Offset: offset})
}

// Each kind of violation is found, and said in one sentence.
func TestWhatIsWrongIsFound(t *testing.T) {
	t.Parallel()
	all := func(b *books) { b.sees(b.one, 0, 1, 2, 3, 4, 5) }
	for name, c := range map[string]struct {
		happens func(*books)
		want    string // violations by their kinds and texts, "" for none
	}{
		"nothing": {all, ""},
		"acked without a place": {
			func(b *books) { b.Accepted(1, &chat.Message{Sender: "noor", ID: "m6", Text: "text 6"}); b.others() },
			"",
		},
		"acked without a place, and not stored": {
			func(b *books) { all(b); b.Accepted(1, &chat.Message{Sender: "olga", ID: "x"}) },
			`lost: message "x" of olga was acked in stream 1, and the log does not have it`,
		},
		"acked without a place, and stored with another text": {
			func(b *books) { b.Accepted(1, &chat.Message{Sender: "noor", ID: "m6", Text: "other"}); b.others() },
			`altered: message "m6" of noor, 6 of stream 1, has not the text in the log that was acked`,
		},
		"acked twice at one place": {func(b *books) { all(b); b.ack("noor", "m2", 2) }, ""},
		"deleted after it was seen": {
			func(b *books) { all(b); b.log[1].Delete() },
			`altered: message "m1" of noor, 1 of stream 1, was deleted`,
		},
		"another's, deleted after it was seen": {
			func(b *books) { b.others(); b.log[6].Delete() },
			"",
		},
		"seen deleted, and not deleted": {
			func(b *books) {
				all(b)
				m := said(6)
				b.log = append(b.log, m)
				m.Delete()
				b.one.Saw(&m)
				b.two.Saw(&m)
			},
			"invented: what viewers saw as message 6 of stream 1 is not what the log has there",
		},
		"stored with another text, and seen so": {
			func(b *books) {
				m := said(6)
				m.Text = "what was sent"
				b.Acked(1, &m)
				b.others()
			},
			`altered: message "m6" of noor, 6 of stream 1, has not the text in the log that was acked`,
		},
		"no word of the analysis":             {func(b *books) { all(b); b.analysed = true }, "withheld: the analysis of stream 1: nobody was told anything of it"},
		"all is skipped, and that is allowed": {func(b *books) { b.one.Skipped(6); b.AllowSkipped(6) }, ""},
		"more is skipped than is allowed":     {func(b *books) { b.one.Skipped(6); b.AllowSkipped(5) }, "withheld: 6 messages to a viewer were announced as skipped, and 5 may be"},
		"deleted, and said by somebody else": {
			func(b *books) { all(b); b.log[1].Delete(); b.log[1].Sender = "olga" },
			"invented: what viewers saw as message 1 of stream 1 is not what the log has there\nlost: message \"m1\" of noor was acked as 1 of stream 1, and the log does not have it",
		},
		"announced": {func(b *books) { b.sees(b.one, 0); b.one.Skipped(3); b.sees(b.one, 4, 5) }, ""},
		"came back": {func(b *books) { b.sees(b.one, 0, 1); b.one.Joined(epoch, 2, true); b.sees(b.one, 2, 3, 4, 5) }, ""},
		"acked, and not stored": {
			func(b *books) { all(b); b.ack("olga", "x", 6) },
			`lost: message "x" of olga was acked as 6 of stream 1, and the log does not have it`,
		},
		"acked, and cut off with what was seen": {
			func(b *books) { all(b); b.log = b.log[:5] },
			`invented: viewers saw message 5 of stream 1, and the log has 5
lost: message "m5" of noor was acked as 5 of stream 1, and the log does not have it
invented: viewer 1 of stream 1 was told of messages up to 6, and the log has 5
invented: viewer 2 of stream 1 was told of messages up to 6, and the log has 5`,
		},
		"acked at two places": {
			func(b *books) { all(b); b.ack("noor", "m2", 4) },
			`moved: message "m2" of noor in stream 1 was acked as 2, and then as 4`,
		},
		"stored at another place": {
			func(b *books) {
				all(b)
				b.ack("olga", "x", 7)
				b.log = append(b.log, chat.Message{Offset: 6, Sender: "olga", ID: "x"})
				b.one.Skipped(1)
				b.two.Skipped(1)
			},
			`moved: message "x" of olga was acked as 7 of stream 1, and the log has it as 6`,
		},
		"stored twice": {
			func(b *books) {
				all(b)
				m := said(2)
				m.Offset = 6
				b.log = append(b.log, m)
				b.one.Skipped(1)
				b.two.Skipped(1)
			},
			`doubled: message "m2" of noor is twice in the log of stream 1: as 2 and 6`,
		},
		"seen twice":        {func(b *books) { all(b); b.sees(b.one, 4) }, "doubled: viewer 1 of stream 1 saw message 4 again"},
		"seen out of order": {func(b *books) { b.sees(b.one, 0, 1, 4, 2, 3, 5) }, "disordered: viewer 1 of stream 1 saw message 2 after message 4\ndisordered: viewer 1 of stream 1 saw message 3 after message 4"},
		"seen, and not stored": {
			func(b *books) { all(b); b.sees(b.one, 6) },
			"invented: viewers saw message 6 of stream 1, and the log has 6\ninvented: viewer 1 of stream 1 was told of messages up to 7, and the log has 6",
		},
		"seen, and stored otherwise": {
			func(b *books) { all(b); b.log[1].Text = "another" },
			"invented: what viewers saw as message 1 of stream 1 is not what the log has there\naltered: message \"m1\" of noor, 1 of stream 1, has not the text in the log that was acked",
		},
		"seen otherwise than by others": {
			func(b *books) {
				m := said(4)
				m.Text = "another"
				b.sees(b.one, 0, 1, 2, 3)
				b.one.Saw(&m)
				b.sees(b.one, 5)
			},
			"invented: viewer 1 of stream 1 saw another message 4 than others did",
		},
		"a gap":        {func(b *books) { b.sees(b.one, 0, 1, 5) }, "withheld: viewer 1 of stream 1 was neither shown messages 2 to 4 nor told that it was skipped"},
		"no end":       {func(b *books) { b.sees(b.one, 0, 1, 2, 3, 4) }, "withheld: viewer 1 of stream 1 was neither shown message 5 nor told that it was skipped"},
		"never joined": {func(b *books) { all(b); b.Viewer(1, "viewer 3") }, "withheld: viewer 3 of stream 1 has never joined"},
		"forgotten": {
			func(b *books) { b.sees(b.one, 0); b.one.Joined(epoch, 2, false); b.sees(b.one, 2, 3, 4, 5) },
			"withheld: viewer 1 of stream 1 came back for message 1, and the server goes on at 2",
		},
		"a hole in the log": {
			func(b *books) { all(b); m := said(7); b.log = append(b.log, m); b.one.Skipped(2); b.two.Skipped(2) },
			"holed: the log of stream 1 has message 7 in place of message 6",
		},
		"analysed": {func(b *books) { all(b); b.Analysed(1, Totals{6, 4, 1, 1}); b.Analysed(1, Totals{3, 3, 0, 0}) }, ""},
		"not analysed": {
			func(b *books) { all(b); b.Analysed(1, Totals{4, 4, 0, 0}) },
			"withheld: messages 4 to 5 of stream 1: neither analysed nor dead letters",
		},
		"analysed twice": {
			func(b *books) { all(b); b.Analysed(1, Totals{6, 6, 0, 1}) },
			"miscounted: the analysis of stream 1 has come to message 6, and counts 7: 6 analysed, 0 deleted and 1 dead letters",
		},
		"analysed, and not in the log": {
			func(b *books) { all(b); b.Analysed(1, Totals{8, 8, 0, 0}) },
			"invented: the analysis of stream 1 has come to message 8, and the log has 6",
		},
		"another log": {func(b *books) { all(b); b.epoch = "fedcba9876543210" }, "replaced: the log was 0123456789abcdef, and is fedcba9876543210: what was acked before is not in it"},
	} {
		b := open()
		c.happens(b)
		b.Check(1, Log{b.epoch, 0, slices.Values(b.log), max(6, uint64(len(b.log))), b.analysed})
		var got []string
		for _, v := range b.Wrong() {
			got = append(got, string(v.Kind)+": "+v.Text)
		}
		count := b.Count()
		if text := strings.Join(got, "\n"); text != c.want || count.Balanced() != (c.want == "") || count.Wrong != int64(len(got)) {
			t.Errorf("%s: got %v and\n%s\nwant\n%s", name, count, text, c.want)
		}
	}
}

// Where another epoch may begin, messages may have other places in it. All that was acked is there, once, and viewers
// begin anew.
func TestAnotherEpochMayBegin(t *testing.T) {
	t.Parallel()
	const after = "fedcba9876543210"
	moved := func(n, to uint64) chat.Message {
		m := said(n)
		m.Offset = to
		return m
	}
	for name, c := range map[string]struct {
		log  []chat.Message
		back bool
		want []Kind
	}{
		"all is there":          {[]chat.Message{said(0), said(1), said(2), said(3), moved(5, 4), moved(4, 5), said(6)}, true, nil},
		"one is lost":           {[]chat.Message{said(0), said(1), said(2), said(3), moved(5, 4), moved(6, 5)}, true, []Kind{Invented, Invented, Lost, Invented, Invented}},
		"one is there twice":    {[]chat.Message{said(0), said(1), said(2), said(3), moved(5, 4), moved(4, 5), said(6), moved(2, 7)}, true, []Kind{Doubled}},
		"who did not come back": {[]chat.Message{said(0), said(1), said(2), said(3), moved(5, 4), moved(4, 5), said(6)}, false, []Kind{Withheld}},
	} {
		b := open()
		l := New()
		l.MayTurn()
		one, two := l.Viewer(1, "viewer 1"), l.Viewer(1, "viewer 2")
		for n := range uint64(6) {
			m := said(n)
			l.Accepted(1, &m)
		}
		one.Joined(epoch, 0, false)
		two.Joined(epoch, 3, false)
		b.sees(one, 0, 1, 2, 3, 4, 5)
		b.sees(two, 3) // the rest it is shown anew
		one.Joined(after, 4, false)
		if _, known := two.Place(); known {
			t.Errorf("%s: a place of another epoch is asked for", name)
		}
		if c.back {
			two.Joined(after, 4, false)
		}
		for at, n := range []uint64{5, 4, 6} {
			m := moved(n, uint64(4+at))
			one.Saw(&m)
			if c.back {
				two.Saw(&m)
			}
		}
		l.Check(1, Log{after, l.Begin(1), slices.Values(c.log), 7, false})
		var got []Kind
		for _, v := range l.Wrong() {
			got = append(got, v.Kind)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, l.Wrong(), c.want)
		}
		if count := l.Count(); c.want == nil && (count.Due != count.Delivered || count.Stored != 6) {
			t.Errorf("%s: got %v", name, count)
		}
	}
}

func TestTheCountSaysWhatIsEqual(t *testing.T) {
	t.Parallel()
	b := open()
	b.sees(b.one, 0, 1, 2, 3)
	b.one.Skipped(2)
	b.Check(1, Log{epoch, 0, slices.Values(b.log), 6, false})
	if got, want := b.Count().String(), "acked 6 = stored 6; due to viewers 9 = delivered 7 + skipped 2; analysed 0, dead letters 0; 0 violations"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b = open()
	b.Check(1, Log{epoch, 0, slices.Values(b.log[:5]), 6, false})
	if got, want := b.Count().String(), "acked 6 ≠ stored 5; due to viewers 9 ≠ delivered 3 + skipped 0; analysed 0, dead letters 0; 4 violations"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	l := New() // of a chat with a past, in which others go on talking
	v := l.Viewer(1, "viewer 1")
	v.Joined(epoch, 3, false)
	third := said(3)
	l.Acked(1, &third)
	for _, m := range b.log[3:] {
		v.Saw(&m)
	}
	if from := l.Begin(1); from != 3 {
		t.Errorf("got %d as the first message, want 3", from)
	}
	if l.Check(1, Log{epoch, 3, slices.Values(append(b.log[3:], said(6))), 6, false}); !l.Count().Balanced() {
		t.Errorf("got %v and %v", l.Count(), l.Wrong())
	}
	l = New()
	l.Acked(1, &third)
	v = l.Viewer(1, "viewer 1")
	v.Joined(epoch, 3, false)
	v.Skipped(1)
	if l.Check(1, Log{epoch, 3, slices.Values([]chat.Message{third}), 4, false}); l.Count().Wrong != 0 || l.Count().Balanced() {
		t.Errorf("nothing was shown to anybody: got %v", l.Count())
	}
	if New().Count().Balanced() {
		t.Error("nothing is balanced that has not happened")
	}
}

func TestWhatWasPromisedWithoutAPlaceIsAwaited(t *testing.T) {
	t.Parallel()
	b := open()
	wants := func(want int) {
		t.Helper()
		if got := b.Awaited(); got != want {
			t.Errorf("%d are awaited, want %d", got, want)
		}
	}
	wants(0)
	six, seven := said(6), said(7)
	b.Accepted(1, &six)
	wants(1)
	b.sees(b.one, 0, 1, 2, 3, 4, 5, 6)
	wants(0)
	b.sees(b.one, 7) // seen before its sender's ack is
	b.Accepted(1, &seven)
	b.Accepted(1, &six)
	wants(0)
}

// What is kept beside the log is compared with all of it, whoever said it.
func TestWhatIsKeptIsTheLog(t *testing.T) {
	t.Parallel()
	row := func(n uint64) chat.Raw {
		m := said(n)
		m.At = int64(1000 + n)
		return chat.Raw{Stream: 1, Message: m}
	}
	for name, c := range map[string]struct {
		rows []chat.Raw
		want string // violations by their kinds and texts, "" for none
		kept int64
	}{
		"all":                             {[]chat.Raw{row(2), row(1), row(0)}, "", 3},
		"read again, with an older one":   {[]chat.Raw{row(2), row(1), row(2), row(1), row(0), {Stream: 1, Message: chat.Message{Sender: "olga", ID: "x"}}}, "", 3},
		"one is not there":                {[]chat.Raw{row(2), row(0)}, `lost: message "m1" of noor, 1 of stream 1, is in the log, and is not kept`, 2},
		"one is there with another text":  {[]chat.Raw{row(2), row(0), {Stream: 1, Message: chat.Message{At: 1001, Sender: "noor", ID: "m1", Text: "other"}}}, `altered: message "m1" of noor, 1 of stream 1, is kept with another text`, 3},
		"one is there twice":              {[]chat.Raw{row(2), row(1), row(0), {Stream: 1, Message: chat.Message{At: 5, Sender: "noor", ID: "m1", Text: "text 1"}}}, `doubled: message "m1" of noor, 1 of stream 1, is kept 2 times`, 3},
		"one with the id of another user": {[]chat.Raw{row(2), row(0), {Stream: 1, Message: chat.Message{At: 1001, Sender: "olga", ID: "m1", Text: "text 1"}}}, `lost: message "m1" of noor, 1 of stream 1, is in the log, and is not kept`, 2},
	} {
		l, logged := New(), []chat.Message{row(0).Message, row(1).Message, row(2).Message}
		k := NewKept(logged)
		if from, missing := k.Missing(); from != 1000 || !missing {
			t.Errorf("%s: got %d, %v, want that the oldest is missing", name, from, missing)
		}
		for i := range c.rows {
			k.Read(&c.rows[i])
		}
		if _, missing := k.Missing(); missing != (c.kept < 3) {
			t.Errorf("%s: missing is %v", name, missing)
		}
		l.CheckKept(1, k)
		var got []string
		for _, v := range l.Wrong() {
			got = append(got, string(v.Kind)+": "+v.Text)
		}
		if text, count := strings.Join(got, "\n"), l.Count(); text != c.want || count.Logged != 3 || count.Kept != c.kept || !strings.Contains(count.String(), "; in the log 3 ") {
			t.Errorf("%s: got %v and\n%s\nwant\n%s", name, count, text, c.want)
		}
	}
}
