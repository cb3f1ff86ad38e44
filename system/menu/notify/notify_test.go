package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"loadstone/block/servertest"
	"loadstone/block/webhook"
	"loadstone/system/menu"
	"loadstone/system/menu/menutest"
	"loadstone/system/menu/pebblestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) menu.Desk {
	t.Helper()
	cfg := pebblestore.DefaultConfig()
	cfg.Dir, cfg.Registerer = filepath.Join(t.TempDir(), "menus"), prometheus.NewRegistry()
	desk, err := pebblestore.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := desk.Close(); err != nil {
			t.Error(err)
		}
	})
	return desk
}

func TestSource(t *testing.T) {
	t.Parallel()
	desk := open(t)
	s := Config(desk).Source
	if end, err := s.End(t.Context()); end != "" || err != nil {
		t.Fatalf("an empty log ends at %q, %v; want nowhere", end, err)
	}
	m := menutest.Example(7, 0)
	if _, _, err := desk.Replace(menu.WithEditor(t.Context(), "ada"), &m, menu.Condition{}); err != nil {
		t.Fatal(err)
	}
	if err := desk.SetDocument(t.Context(), &menu.Document{Kind: menu.Availability, ID: 7, Editor: "bob", Body: []byte("{}")}, menu.Condition{}); err != nil {
		t.Fatal(err)
	}
	if _, err := desk.Delete(t.Context(), 7, menu.Condition{}); err != nil {
		t.Fatal(err)
	}
	all, err := s.After(t.Context(), "", 100_000)
	if err != nil || len(all) != 3 {
		t.Fatalf("got %d messages and %v, want 3", len(all), err)
	}
	at := func(m webhook.Message) string { return m.At.UTC().Format("2006-01-02T15:04:05.000Z") }
	for i, want := range []webhook.Message{
		{ID: "menu_7_1", Key: "7", Body: []byte(`{"type":"menu.changed","timestamp":"` + at(all[0]) + `","id":7,"version":1,"deleted":false,"editor":"ada"}`)},
		{ID: "availability_" + all[1].Cursor, Key: "availability 7", Body: []byte(`{"type":"menu.availability","timestamp":"` + at(all[1]) + `","id":7,"deleted":false,"editor":"bob"}`)},
		{ID: "menu_7_2", Key: "7", Body: []byte(`{"type":"menu.changed","timestamp":"` + at(all[2]) + `","id":7,"version":2,"deleted":true,"editor":"api"}`)},
	} {
		if got := all[i]; got.ID != want.ID || got.Key != want.Key || string(got.Body) != string(want.Body) || got.At.IsZero() {
			t.Errorf("got %s of %s at %v, %s; want %s, %s", got.ID, got.Key, got.At, got.Body, want.ID, want.Body)
		}
	}
	end, err := s.End(t.Context())
	if err != nil || end != all[2].Cursor {
		t.Errorf("the log ends at %q, %v; want %q", end, err, all[2].Cursor)
	}
	if rest, err := s.After(t.Context(), all[1].Cursor, 1); err != nil || len(rest) != 1 || rest[0].ID != "menu_7_2" {
		t.Errorf("behind the second: got %v and %v, want the third", rest, err)
	}
	if rest, err := s.After(t.Context(), end, 1); err != nil || len(rest) != 0 {
		t.Errorf("behind the last: got %v and %v, want nothing", rest, err)
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	p := Config(open(t)).Places
	want := func(endpoint, text string) {
		t.Helper()
		if got, err := p.Load(t.Context(), endpoint); err != nil || string(got) != text || (text == "") != (got == nil) {
			t.Errorf("%s: got %q and %v, want %q", endpoint, got, err, text)
		}
	}
	swap := func(old, text string, taken bool) {
		t.Helper()
		var before []byte
		if old != "" {
			before = []byte(old)
		}
		if err := p.Swap(t.Context(), "a", before, []byte(text)); errors.Is(err, webhook.ErrTaken) != taken || (err != nil) != taken {
			t.Errorf("replace %q with %q: got %v, want taken %v", old, text, err, taken)
		}
	}
	want("a", "")
	swap("0", "1", true)
	swap("", "1", false)
	swap("", "2", true)
	swap("0", "2", true)
	want("a", "1")
	swap("1", "2", false)
	want("a", "2")
	want("b", "")
}

// The interface's document has what is sent.
func TestDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../httpapi/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	sent := map[string]any{}
	if text, err = json.Marshal(event{Version: 1, Editor: "ada"}); err == nil {
		err = json.Unmarshal(text, &sent)
	}
	want := slices.Sorted(maps.Keys(sent))
	if got := slices.Sorted(maps.Keys(document.Components.Schemas["Change"].Properties)); err != nil || !slices.Equal(got, want) {
		t.Errorf("the document has %q, sent is %q, %v", got, want, err)
	}
}

// The README's receiver accepts what is signed here, and nothing else.
func TestReadmeVerifies(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		servertest.Missing(t, "Python is not installed: apt-get install python3")
	}
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(text), "```python\n")
	program, _, _ = strings.Cut(program, "```")
	const mine, old, id, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "menu_7_3", `{"type":"menu.changed"}`
	keys := make([]webhook.Key, 2)
	for i, key := range []string{old, mine} {
		if keys[i], err = webhook.ParseKey(key); err != nil {
			t.Fatal(err)
		}
	}
	check := func(at time.Time, key, body string) {
		program += fmt.Sprintf("print(+verify({'webhook-id': %q, 'webhook-timestamp': '%d', 'webhook-signature': %q}, %q.encode(), %q))\n",
			id, at.Unix(), webhook.Sign(keys, id, at, []byte(`{"type":"menu.changed"}`)), body, key)
	}
	now := time.Now()
	check(now, mine, body)
	check(now, old, body)
	check(now, mine, "{}")
	check(now, "whsec_QUFB", body)
	check(now.Add(-time.Hour), mine, body)
	out, err := exec.CommandContext(t.Context(), "python3", "-c", program).CombinedOutput()
	if want := "1\n1\n0\n0\n0\n"; err != nil || string(out) != want {
		t.Errorf("got %v and\n%swant\n%s", err, out, want)
	}
}
