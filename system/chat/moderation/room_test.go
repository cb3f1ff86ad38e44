package moderation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/system/chat"
)

var noon = time.UnixMilli(1_800_000_000_000)

// fixture is a room, and what is stored of it.
type fixture struct {
	t *testing.T
	*Room

	stored map[string][]byte
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{t: t, Room: NewRoom(), stored: map[string][]byte{}}
}

func (f *fixture) store(c *Change) {
	f.t.Helper()
	for name, value := range c.Records {
		if f.stored[name] = value; value == nil {
			delete(f.stored, name)
		}
		if err := f.Load(name, value); err != nil {
			f.t.Fatal(err)
		}
	}
}

// restart reads what is stored into a new room.
func (f *fixture) restart() {
	f.t.Helper()
	f.Room = NewRoom()
	f.store(&Change{Records: f.stored})
}

// act does what somebody asks for.
func (f *fixture) act(by string, a Action, message *chat.Message) (*Change, error) {
	f.t.Helper()
	c, err := f.Plan(noon, Actor{User: by, Name: by, Role: own(by)}, &a, message, own(a.User))
	if err == nil {
		f.store(c)
	}
	return c, err
}

// own is what users are without having been appointed.
func own(user string) Role {
	if user == "host" {
		return Host
	}
	return Viewer
}

func (f *fixture) set(s Settings) {
	f.t.Helper()
	if _, err := f.act("host", Action{Kind: Set, Settings: &s}, nil); err != nil {
		f.t.Fatal(err)
	}
}

// says checks what becomes of a message some seconds after noon.
func (f *fixture) says(user, text, id string, at int, want error) {
	f.t.Helper()
	err := f.Check(noon.Add(time.Duration(at)*time.Second), &Speaker{User: user, Role: own(user), Follows: user == "follower", Subscribed: user == "subscriber"}, &chat.Send{ID: id, Text: text})
	if !errors.Is(err, want) {
		f.t.Errorf("%s says %q after %d s: got %v, want %v", user, text, at, err, want)
	}
}

func TestEachSettingRefusesWhatItIsFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		settings   Settings
		user, text string
		want       error
	}{
		{Settings{}, "viewer", "hello", nil},
		{Settings{Followers: true}, "viewer", "hello", ErrFollowers},
		{Settings{Followers: true}, "follower", "hello", nil},
		{Settings{Followers: true}, "subscriber", "hello", nil},
		{Settings{Subscribers: true}, "follower", "hello", ErrSubscribers},
		{Settings{Subscribers: true}, "subscriber", "hello", nil},
		{Settings{Emotes: true}, "viewer", "hello", ErrEmotes},
		{Settings{Emotes: true}, "viewer", "👋", nil},
		{Settings{Words: []string{"bad"}}, "viewer", "so bаd", ErrWord},
		{Settings{Words: []string{"bad"}}, "viewer", "good", nil},
		{Settings{Followers: true, Subscribers: true, Emotes: true, Words: []string{"bad"}}, "host", "bad", nil},
	} {
		f := newFixture(t)
		f.set(c.settings)
		f.says(c.user, c.text, "1", 0, c.want)
		f.restart()
		f.says(c.user, c.text, "1", 0, c.want)
	}
}

func TestSlowMode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.set(Settings{Slow: 10})
	f.says("a", "one", "1", 0, nil)
	f.says("a", "one", "1", 1, nil) // sent again
	f.says("b", "one", "1", 1, nil)
	f.says("a", "two", "2", 3, ErrSlow)
	err := f.Check(noon.Add(3*time.Second), &Speaker{User: "a"}, &chat.Send{ID: "2", Text: "two"})
	if later, ok := errors.AsType[*chat.WaitError](err); !ok || later.Seconds != 8 {
		t.Errorf("got %v, want 8 seconds: it was counted when it was sent again", err)
	}
	f.says("a", "two", "2", 11, nil)
	f.says("host", "one", "1", 11, nil)
	f.says("host", "two", "2", 11, nil)
}

func TestUniqueMessages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.set(Settings{Unique: true})
	f.says("a", "Hello", "1", 0, nil)
	f.says("a", "Hello", "1", 0, nil) // sent again
	f.says("a", "Hello", "2", 0, ErrUnique)
	f.says("b", "h\u200bellο", "1", 0, ErrUnique)
	for i := range recentTexts {
		f.says("a", fmt.Sprintf("text %dth", i), fmt.Sprint("x", i), 0, nil)
	}
	f.says("b", "Hello", "1", 0, nil) // forgotten
	f.Forget()
	f.says("b", "text 7th", "2", 0, nil)
}

func TestBansAndTimeouts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, a := range []Action{{Kind: Ban, User: "banned", Reason: "spam"}, {Kind: Timeout, User: "waits", Seconds: 60}} {
		if _, err := f.act("host", a, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		f.says("banned", "hello", "1", 0, ErrBanned)
		f.says("waits", "hello", "1", 59, ErrTimedOut)
		f.says("waits", "hello", "1", 60, nil)
		if err := f.Enter(&Speaker{User: "banned"}); !errors.Is(err, ErrBanned) {
			t.Errorf("got %v", err)
		}
		if err := f.Enter(&Speaker{User: "waits"}); err != nil {
			t.Errorf("who has to wait may not read: %v", err)
		}
		f.restart()
	}
	if got := f.Barring(noon.Add(time.Hour)); len(got) != 1 || got["banned"].Reason != "spam" || got["banned"].By != "host" {
		t.Errorf("got %+v", got)
	}
	if _, err := f.act("host", Action{Kind: Unban, User: "banned"}, nil); err != nil {
		t.Fatal(err)
	}
	f.says("banned", "hello", "1", 0, nil)
}

func TestBarsAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bar := func(at time.Time, a Action) (*Change, error) {
		c, err := f.Plan(at, Actor{User: "host", Role: Host}, &a, nil, Viewer)
		if err == nil {
			f.store(c)
		}
		return c, err
	}
	for i := range MaxBarred {
		if _, err := bar(noon, Action{Kind: Timeout, User: fmt.Sprint("u", i), Seconds: 60}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := bar(noon, Action{Kind: Ban, User: "one-more"}); !errors.Is(err, ErrMany) {
		t.Errorf("got %v", err)
	}
	if _, err := bar(noon, Action{Kind: Ban, User: "u7"}); err != nil {
		t.Errorf("one who is in the list: got %v", err)
	}
	if _, err := bar(noon.Add(time.Hour), Action{Kind: Ban, User: "one-more"}); err != nil || len(f.barred) != 2 {
		t.Errorf("after the time outs: got %v and %d", err, len(f.barred))
	}
}

func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, user := range []string{"mod", "mod2"} {
		if _, err := f.act("host", Action{Kind: Appoint, User: user}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		by   string
		a    Action
		want error
	}{
		{"viewer", Action{Kind: Unpin}, ErrRole},
		{"viewer", Action{Kind: Ban, User: "other"}, ErrRole},
		{"mod", Action{Kind: Ban, User: "viewer"}, nil},
		{"mod", Action{Kind: Unban, User: "viewer"}, nil},
		{"mod", Action{Kind: Ban, User: "host"}, ErrRole},
		{"mod", Action{Kind: Timeout, User: "mod2", Seconds: 1}, ErrRole},
		{"mod", Action{Kind: Set, Settings: &Settings{}}, ErrRole},
		{"mod", Action{Kind: Appoint, User: "viewer"}, ErrRole},
		{"mod", Action{Kind: Dismiss, User: "mod2"}, ErrRole},
		{"host", Action{Kind: Ban, User: "host"}, ErrRole},
		{"host", Action{Kind: Ban, User: "mod2"}, nil},
		{"host", Action{Kind: Dismiss, User: "mod"}, nil},
		{"mod", Action{Kind: Unpin}, ErrRole},
	} {
		if _, err := f.act(c.by, c.a, nil); !errors.Is(err, c.want) {
			t.Errorf("%s, %s of %s: got %v, want %v", c.by, c.a.Kind, c.a.User, err, c.want)
		}
	}
	for i := range MaxModerators + 1 {
		_, err := f.act("host", Action{Kind: Appoint, User: fmt.Sprint("m", i)}, nil)
		if room := i < MaxModerators; (err == nil) != room { // mod and mod2 are none any more
			t.Fatalf("the %dth moderator: got %v", i, err)
		}
	}
}

func TestWhatIsDeletedAndPinned(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := chat.Message{Offset: 7, Sender: "a", Name: "A", ID: "1", Text: "hello"}
	offset := uint64(7)
	if c, err := f.act("host", Action{Kind: Pin, Offset: &offset}, &m); err != nil || c.Entry.User != "a" || string(f.Pinned()) != string(m.Append(nil)) {
		t.Errorf("got %+v, %v", c, err)
	}
	f.restart()
	if got := f.Welcome(false, 0); len(got) != 1 || !strings.Contains(string(got[0]), "hello") {
		t.Errorf("who joins is told %q", got)
	}
	if c, err := f.act("host", Action{Kind: Delete, Offset: &offset}, &m); err != nil || !c.Deletes || f.Pinned() != nil {
		t.Errorf("got %+v, %v, and %q is pinned", c, err, f.Pinned())
	}
	m.Delete()
	for _, gone := range []*chat.Message{nil, &m} {
		if _, err := f.act("host", Action{Kind: Pin, Offset: &offset}, gone); !errors.Is(err, ErrNoMessage) {
			t.Errorf("what is not there was pinned: %v", err)
		}
	}
	f.restart()
	for want, got := range map[string][][]byte{
		"[]": f.Welcome(false, 9), "": f.Welcome(true, 7), `[{"type":"deleted","offsets":[7]}]`: f.Welcome(true, 8),
	} {
		if text := fmt.Sprintf("%s", got); want != "" && text != want || want == "" && len(got) > 0 {
			t.Errorf("got %s, want %s", text, want)
		}
	}
	for i := range uint64(MaxDeleted) {
		m := chat.Message{Offset: 100 + i, Sender: "a", Text: "x"}
		if _, err := f.act("host", Action{Kind: Delete, Offset: &m.Offset}, &m); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.Deleted(); len(got) != MaxDeleted || got[0] != 100 {
		t.Errorf("got %d deletions, from %d", len(got), got[0])
	}
}

// A bar binds moderators, who are none any more with a ban; nothing that is asked for later makes a ban shorter.
func TestBarsBindModerators(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	do := func(by string, want error, a Action) {
		t.Helper()
		if _, err := f.act(by, a, nil); !errors.Is(err, want) {
			t.Errorf("%s, %s of %s: got %v, want %v", by, a.Kind, a.User, err, want)
		}
	}
	do("host", nil, Action{Kind: Appoint, User: "mod"})
	do("host", nil, Action{Kind: Timeout, User: "mod", Seconds: 60})
	f.restart()
	f.says("mod", "hello", "1", 59, ErrTimedOut)
	if err := f.React(noon, &Speaker{User: "mod"}); !errors.Is(err, ErrTimedOut) {
		t.Errorf("a moderator who has to wait reacts: got %v", err)
	}
	do("mod", ErrRole, Action{Kind: Unban, User: "mod"})
	do("mod", ErrTimedOut, Action{Kind: Ban, User: "viewer"})
	f.says("mod", "hello", "1", 60, nil)

	do("host", nil, Action{Kind: Ban, User: "mod"})
	do("host", nil, Action{Kind: Timeout, User: "mod", Seconds: 1})
	f.restart()
	f.says("mod", "hello", "2", 2, ErrBanned)
	if err := f.Enter(&Speaker{User: "mod"}); !errors.Is(err, ErrBanned) || f.Role("mod", Viewer) != Viewer {
		t.Errorf("a moderator who is banned comes in as %q: %v", f.Role("mod", Viewer), err)
	}
	do("mod", ErrRole, Action{Kind: Unpin})
	do("host", nil, Action{Kind: Appoint, User: "mod"}) // nobody is both
	f.says("mod", "hello", "2", 2, nil)
	do("mod", nil, Action{Kind: Unpin})
}

// A moderator takes back what viewers say, and what it said itself.
func TestWhoseMessagesAreDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, user := range []string{"mod", "mod2"} {
		if _, err := f.act("host", Action{Kind: Appoint, User: user}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		by, sender string
		kind       Kind
		want       error
	}{
		{"mod", "host", Delete, ErrRole},
		{"mod", "mod2", Delete, ErrRole},
		{"mod", "mod", Delete, nil},
		{"mod", "viewer", Delete, nil},
		{"mod", "host", Pin, nil},
		{"host", "host", Delete, nil},
		{"host", "mod", Delete, nil},
	} {
		m := chat.Message{Offset: 7, Sender: c.sender, ID: "1", Text: "hello"}
		a := Action{Kind: c.kind, Offset: &m.Offset}
		if _, err := f.Plan(noon, Actor{User: c.by, Role: own(c.by)}, &a, &m, own(c.sender)); !errors.Is(err, c.want) {
			t.Errorf("%s, %s of a message of %s: got %v, want %v", c.by, c.kind, c.sender, err, c.want)
		}
	}
}

// What an action of the kind does not have is neither checked nor stored.
func TestMembersOfOtherKindsAreLeftOut(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		data := fmt.Sprintf(`{"action":%q,"offset":7,"user":"u","seconds":9,"reason":"why","settings":{"words":["bad"]}}`, kind)
		a, err := ParseAction([]byte(data))
		got := fmt.Sprintf("%t,%s,%d,%s,%t", a.Offset != nil, a.User, a.Seconds, a.Reason, a.Settings != nil)
		want := map[Kind]string{Delete: "true,,0,,false", Pin: "true,,0,,false", Unpin: "false,,0,,false", Timeout: "false,u,9,why,false", Ban: "false,u,0,why,false", Set: "false,,0,,true"}[kind]
		if want == "" {
			want = "false,u,0,,false"
		}
		if err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", kind, got, err, want)
		}
	}
	if a, err := ParseAction([]byte(`{"action":"unpin","user":"a b","reason":"\n"}`)); err != nil || a != (Action{Kind: Unpin}) {
		t.Errorf("got %+v, %v", a, err)
	}
}

// The log says what was set, and not what must not be said.
func TestTheLogHasNoWords(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c, err := f.act("host", Action{Kind: Set, Settings: &Settings{Slow: 5, Words: []string{"bad"}}}, nil)
	if err != nil || c.Entry.By != "host" || c.Entry.Settings.Slow != 5 || c.Entry.Settings.Words != nil {
		t.Errorf("got %+v, %v", c, err)
	}
	if got := f.Settings(); !slices.Equal(got.Words, []string{"bad"}) {
		t.Errorf("got %+v", got)
	}
}

func TestMentions(t *testing.T) {
	t.Parallel()
	r := NewRoom()
	for name, user := range map[string]string{"Noor": "u1", "Noor Ada": "u2", "민수": "u3", "a": "u4", "b": "u5", "c": "u6", "d": "u7"} {
		r.Meet(name, user)
	}
	r.Meet("nооr", "impostor")
	for text, want := range map[string]string{
		"hello":                 "",
		"@Noor hi":              "u1",
		"hi @noor!":             "u1",
		"@Noor Ada, @NOOR":      "u2 u1",
		"@Noora":                "",
		"@민수야":                  "u3",
		"mail@noor":             "",
		"안녕@민수":                 "u3",
		"@Noor @Noor":           "u1",
		"@ @@Noor":              "u1",
		"@a @b @c @d @Noor @민수": "u4 u5 u6 u7 u1",
		"@":                     "",
	} {
		if got := strings.Join(r.Mentions(text), " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for i := range maxNames {
		r.Meet(fmt.Sprintf("name-%d-x", i), "u")
	}
	if got := r.Mentions("@Noor"); got != nil || len(r.names.values) != maxNames {
		t.Errorf("got %v of %d names", got, len(r.names.values))
	}
}

func TestReactionsAreCountedInWindows(t *testing.T) {
	t.Parallel()
	r := NewReactions()
	for range 3 {
		if err := errors.Join(r.Add(1, "heart"), r.Add(2, "fire")); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Add(1, "<script>"); !errors.Is(err, ErrReaction) {
		t.Errorf("got %v", err)
	}
	all := r.Take()
	if got := string(AppendReactions(nil, all[1])); len(all) != 2 || got != `{"type":"reactions","counts":{"heart":3}}` {
		t.Errorf("got %d rooms and %s", len(all), got)
	}
	if all := r.Take(); len(all) != 0 {
		t.Errorf("the next window has %d rooms", len(all))
	}
}

func TestHeld(t *testing.T) {
	t.Parallel()
	for at, want := range map[int64]bool{0: true, -4999: true, -5000: false, 1: false} {
		if got := Held(noon.UnixMilli()+at, 5*time.Second, noon); got != want {
			t.Errorf("%d ms: got %v", at, got)
		}
	}
}

// What a message costs in a room with nothing set, and with all.
func BenchmarkCheck(b *testing.B) {
	for name, s := range map[string]*Settings{"nothing": nil, "all": {Slow: 1, Unique: true, Words: []string{"bad"}}} {
		b.Run(name, func(b *testing.B) {
			r := NewRoom()
			if s != nil {
				c, err := r.Plan(noon, Actor{User: "h", Role: Host}, &Action{Kind: Set, Settings: s}, nil, Viewer)
				if err == nil {
					err = r.Load(settingsRecord, c.Records[settingsRecord])
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			n := 0
			for b.Loop() {
				n++
				if err := r.Check(noon, &Speaker{User: fmt.Sprint("u", n)}, &chat.Send{ID: "1", Text: fmt.Sprint("something that is said ", n)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
