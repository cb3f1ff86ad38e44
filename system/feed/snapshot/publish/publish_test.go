package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"loadstone/block/objects"
	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
	"loadstone/system/feed/snapshot"
	"loadstone/system/feed/sqlitestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// posts is a store that does something before it answers, or fails.
type posts struct {
	*feedtest.Memory

	asked func()
	down  atomic.Bool
}

func (p *posts) Notices(ctx context.Context, seen int64) (feed.Notices, error) {
	if p.down.Load() {
		return feed.Notices{}, feed.ErrUnavailable
	}
	if p.asked != nil {
		p.asked()
	}
	return p.Memory.Notices(ctx, seen)
}

// filled has the posts 1 to count, of which 97 is pinned.
func filled(t *testing.T, count int64) *posts {
	t.Helper()
	p := &posts{Memory: &feedtest.Memory{}}
	if _, err := p.Fill(t.Context(), feedtest.Generator(t, 1, count), nil); err != nil {
		t.Fatal(err)
	}
	return p
}

// publisher publishes into a directory.
func publisher(t *testing.T, store feed.Store, path string) *Publisher {
	t.Helper()
	d, err := objects.OpenDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	inner := snapshot.DefaultConfig()
	inner.Store = d
	cfg := DefaultConfig()
	cfg.Store, cfg.Logger, cfg.Registerer = store, slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	if cfg.Snapshot, err = snapshot.NewPublisher(inner); err != nil {
		t.Fatal(err)
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func once(t *testing.T, p *Publisher, o snapshot.Options) *snapshot.Snapshot {
	t.Helper()
	s, err := p.Once(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Pages have the newest posts in their order, ten each, and every part is what the live interface answers.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		count       int64
		most, pages int
		last        int // posts on the last page
	}{{205, 1000, 21, 5}, {205, 120, 12, 10}, {205, 203, 21, 3}, {200, 200, 20, 10}, {3, 1000, 1, 3}} {
		store := filled(t, c.count)
		pages, err := Pages(t.Context(), store, c.most)
		if err != nil || len(pages) != c.pages+1 || pages[0].Name != noticesName {
			t.Fatalf("%+v: got %d pages, %v", c, len(pages), err)
		}
		id := c.count
		for n, page := range pages[1:] {
			var p Page
			if err := json.Unmarshal(page.Body, &p); err != nil {
				t.Fatal(err)
			}
			want, next := PageSize, nameOf(n+2)
			if n == c.pages-1 {
				want, next = c.last, ""
			}
			if page.Name != nameOf(n+1) || len(p.Posts) != want || p.Next != next {
				t.Errorf("%+v: %s has %d posts and next %q, want %d and %q", c, page.Name, len(p.Posts), p.Next, want, next)
			}
			for _, whole := range p.Posts {
				if whole.Post.ID != id || (whole.Media == nil) != (id%feed.Reading == 0) || whole.Responses == nil {
					t.Errorf("%+v: got post %d with %+v, want %d", c, whole.Post.ID, whole, id)
				}
				for _, v := range []feed.Value{&whole.Post, whole.Author, whole.Responses} {
					if !bytes.Contains(page.Body, v.AppendJSON(nil)) {
						t.Errorf("%+v: post %d has other bytes than where it is live", c, id)
					}
				}
				id--
			}
		}
	}
	// No posts are a page without posts.
	pages, err := Pages(t.Context(), &feedtest.Memory{}, 10)
	if err != nil || len(pages) != 2 || string(pages[1].Body) != `{"next":"","posts":[]}` {
		t.Errorf("got %q, %v", pages, err)
	}
}

// public are all the fields that are published. One that is new has to be added here, by somebody who knows that
// anybody may read it.
var public = []string{
	"next", "posts",
	"posts.author", "posts.author.author", "posts.author.post",
	"posts.author.author.about", "posts.author.author.id", "posts.author.author.name", "posts.author.author.photo",
	"posts.author.author.role", "posts.author.author.team",
	"posts.media", "posts.media.media", "posts.media.post",
	"posts.media.media.alt", "posts.media.media.height", "posts.media.media.kind", "posts.media.media.url", "posts.media.media.width",
	"posts.post", "posts.post.author", "posts.post.comments", "posts.post.id", "posts.post.media", "posts.post.pinned",
	"posts.post.published", "posts.post.reactions", "posts.post.text", "posts.post.title",
	"posts.responses", "posts.responses.comments", "posts.responses.post", "posts.responses.reactions",
	"posts.responses.comments.author", "posts.responses.comments.published", "posts.responses.comments.text",
	"posts.responses.reactions.count", "posts.responses.reactions.kind",

	"pinned", "pinned.post", "pinned.published", "pinned.title", "unread",
}

// fieldsOf are the names of a type's fields in JSON, with those that they are in.
func fieldsOf(t reflect.Type, in string) (names []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name // also of what is embedded
		}
		names = append(append(names, in+name), fieldsOf(f.Type, in+name+".")...)
	}
	return names
}

// keysOf are those of a text.
func keysOf(value any, in string) (names []string) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			names = append(append(names, in+name), keysOf(inner, in+name+".")...)
		}
	case []any:
		for _, inner := range v {
			names = append(names, keysOf(inner, in)...)
		}
	}
	return names
}

func TestOnlyWhatAnybodyMayReadIsPublished(t *testing.T) {
	t.Parallel()
	check := func(what string, got []string) {
		t.Helper()
		slices.Sort(got)
		for _, name := range slices.Compact(got) {
			if !slices.Contains(public, name) {
				t.Errorf("%s publishes %s: if anybody may read it, add it to the list", what, name)
			}
		}
		for _, name := range public {
			if !slices.Contains(got, name) {
				t.Errorf("%s does not publish %s: take it off the list", what, name)
			}
		}
	}
	check("a type", append(fieldsOf(reflect.TypeFor[Page](), ""), fieldsOf(reflect.TypeFor[feed.Notices](), "")...))
	pages, err := Pages(t.Context(), filled(t, 200), 200)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, page := range pages {
		var v any
		if err := json.Unmarshal(page.Body, &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, keysOf(v, "")...)
	}
	check("a page", all)

	// It would be noticed.
	type private struct {
		Posts []struct {
			Author *struct {
				feed.Author

				Email string `json:"email,omitempty"`
			} `json:"author"`
		} `json:"posts"`
	}
	if got := fieldsOf(reflect.TypeFor[private](), ""); !slices.Contains(got, "posts.author.email") {
		t.Errorf("got %q", got)
	}
}

// A post that was taken down is nowhere any more, the one who had read it before included; and it does not come back.
func TestTakeDown(t *testing.T) {
	t.Parallel()
	path, store := t.TempDir(), filled(t, 100)
	p := publisher(t, store, path)
	once(t, p, snapshot.Options{})
	pages, _ := Pages(t.Context(), store, 1)
	if !bytes.Contains(pages[0].Body, []byte(`"post":97,`)) {
		t.Fatalf("post 97 is not pinned: %s", pages[0].Body)
	}
	late := publisher(t, &posts{Memory: store.Memory, asked: func() {
		if _, err := p.TakeDown(t.Context(), 97); err != nil {
			t.Error(err)
		}
	}}, path)
	// As Notices is asked for last, it has read the post.
	if _, err := late.publish(t.Context(), snapshot.Options{}); !errors.Is(err, snapshot.ErrSuperseded) {
		t.Errorf("got %v", err)
	}
	s := once(t, publisher(t, store, path), snapshot.Options{}) // which collects what late has left
	if err := filepath.WalkDir(path, func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		if bytes.Contains(text, []byte(`"post":97,`)) || bytes.Contains(text, []byte(`"id":97,"media"`)) {
			t.Errorf("it is in %s", file)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	var n, first, last = 0, 0, 0
	for _, page := range s.Pages()[1:] {
		var p Page
		if err := json.Unmarshal(page.Body, &p); err != nil {
			t.Fatal(err)
		}
		n, first, last = n+len(p.Posts), max(first, len(p.Posts)), len(p.Posts)
	}
	if n != 99 || first != PageSize || last != 9 {
		t.Errorf("%d posts are left, %d on the last page", n, last)
	}
	// Again, and one that there never was: nothing else changes.
	for _, id := range []int64{97, 12345} {
		again, err := p.TakeDown(t.Context(), id)
		if err != nil || !slices.EqualFunc(again.Pages(), s.Pages(), func(a, b snapshot.Page) bool { return bytes.Equal(a.Body, b.Body) }) {
			t.Errorf("%d: got %v, or other pages", id, err)
		}
	}
	// What cannot be deleted from the store is not taken down: it would come back.
	store.Close()
	if _, err := p.TakeDown(t.Context(), 96); !errors.Is(err, feed.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

// What an editor takes down is in no version any more when the next one is published, also if it is more than half, and if a
// publisher was killed before it had deleted the versions that had it. One that has just started does not know whether somebody
// wanted so much to go.
func TestEditorsTakeDown(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	desk, err := sqlitestore.Open(t.Context(), filepath.Join(path, "feed.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { desk.Close() })
	if _, err := desk.Fill(t.Context(), feedtest.Generator(t, 1, 100), nil); err != nil {
		t.Fatal(err)
	}
	change := func(action feed.Action, from, to int64) {
		t.Helper()
		for id := from; id <= to; id++ {
			if _, err := desk.Apply(t.Context(), feed.Change{Action: action, Editor: "noor", Post: id}, nil, feed.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	snapshots := filepath.Join(path, "snapshots")
	p := publisher(t, desk, snapshots)
	once(t, p, snapshot.Options{})
	change(feed.TakenDown, 100, 100)
	change(feed.Erased, 99, 99)
	// As it is left by one who was killed.
	if _, err := p.cfg.Snapshot.Publish(t.Context(), func(ctx context.Context, _ *snapshot.Snapshot) ([]snapshot.Page, error) {
		return Pages(ctx, desk, 1000)
	}, snapshot.Options{}); err != nil {
		t.Fatal(err)
	}
	s := once(t, publisher(t, desk, snapshots), snapshot.Options{})
	if len(s.Manifest.Earlier) > 0 || len(s.Pages()) != 11 {
		t.Errorf("earlier versions are kept: %+v", s.Manifest)
	}
	gone := func(id int64) {
		t.Helper()
		if err := filepath.WalkDir(snapshots, func(file string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(file)
			if bytes.Contains(text, fmt.Appendf(nil, `"id":%d,"media"`, id)) {
				t.Errorf("post %d is in %s", id, file)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	gone(100)
	gone(99)
	once(t, p, snapshot.Options{})
	change(feed.TakenDown, 31, 98)
	// More than half, and the publisher that saw it has ended.
	if s = once(t, publisher(t, desk, snapshots), snapshot.Options{}); len(s.Pages()) != 4 {
		t.Errorf("%d pages are left", len(s.Pages()))
	}
	gone(31)
	once(t, p, snapshot.Options{})
	// An edit, or what comes back, is no reason to forget.
	s.Manifest.Earlier = []snapshot.Edition{{Published: time.Now().Add(2 * skew)}}
	change(feed.PutBack, 31, 31)
	if err := p.look(t.Context(), desk); err != nil || len(p.removed) > 0 || p.outlived(s.Manifest) {
		t.Errorf("got %v, %+v", err, p.removals)
	}
}

// edited is a Desk with another log, and perhaps without its posts.
type edited struct {
	feed.Desk

	log  []feed.Change
	lost bool
}

func (e *edited) Since(_ context.Context, number int64, limit int) ([]feed.Change, error) {
	at := slices.IndexFunc(e.log, func(c feed.Change) bool { return c.Number > number })
	if at < 0 {
		return nil, nil
	}
	return e.log[at:min(at+limit, len(e.log))], nil
}

func (e *edited) Page(ctx context.Context, behind feed.Position, limit int) ([]feed.Post, error) {
	if e.lost {
		return nil, nil
	}
	return e.Desk.Page(ctx, behind, limit)
}

func editedDesk(t *testing.T) *edited {
	t.Helper()
	desk, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "feed.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { desk.Close() })
	if _, err := desk.Fill(t.Context(), feedtest.Generator(t, 1, 30), nil); err != nil {
		t.Fatal(err)
	}
	return &edited{Desk: desk}
}

// Of posts that are lost, only those go that were taken down.
func TestWhatIsLostIsNoRemoval(t *testing.T) {
	t.Parallel()
	path, desk := t.TempDir(), editedDesk(t)
	p := publisher(t, desk, path)
	once(t, p, snapshot.Options{})
	desk.log, desk.lost = []feed.Change{{Number: 1, At: time.Now().UnixMilli(), Action: feed.TakenDown, Post: 30}}, true
	for _, by := range []*Publisher{p, publisher(t, desk, path)} {
		if _, err := by.Once(t.Context(), snapshot.Options{}); !errors.Is(err, snapshot.ErrShrank) {
			t.Errorf("got %v", err)
		}
	}
	s, err := p.cfg.Snapshot.Purge(t.Context(), func(page snapshot.Page) []byte { return page.Body }) // as it is
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[int]bool{29: true, 30: false} {
		if got := bytes.Contains(s.Whole(), fmt.Appendf(nil, `"id":%d,"media"`, id)); got != want {
			t.Errorf("post %d is published: %v", id, got)
		}
	}
}

// A log that is shorter than it was, or another one, is read anew.
func TestRestoredLog(t *testing.T) {
	t.Parallel()
	desk := editedDesk(t)
	p := publisher(t, desk, t.TempDir())
	look := func(log ...feed.Change) (found []int64) {
		t.Helper()
		desk.log = log
		if err := p.look(t.Context(), desk); err != nil {
			t.Fatal(err)
		}
		for post := range p.removed {
			found = append(found, post)
		}
		clear(p.removed)
		return found
	}
	down := func(number, post int64) feed.Change {
		return feed.Change{Number: number, At: post, Action: feed.TakenDown, Post: post, Title: fmt.Sprint(post)}
	}
	look(down(1, 1), down(2, 2), down(3, 3))
	if p.removals.last.UnixMilli() != 3 {
		t.Errorf("the last was at %v", p.removals.last)
	}
	forgotten := down(3, 3)
	forgotten.Title = ""
	if got := look(forgotten); len(got) > 0 {
		t.Errorf("got %v again", got)
	}
	before := time.Now()
	if got := look(forgotten, down(4, 4)); len(got) != 1 || p.removals.last.Before(before) {
		t.Errorf("got %v at %v", got, p.removals.last)
	}
	for _, log := range [][]feed.Change{{down(1, 5)}, {}, {down(1, 6)}, {down(1, 7), down(2, 8)}} {
		if got := look(log...); len(got) != len(log) {
			t.Errorf("got %v of %v", got, log)
		}
	}
	long := make([]feed.Change, 2*changesRead+1)
	for i := range long {
		long[i] = down(int64(i+1), int64(i+1))
	}
	if got := look(long...); len(got) != len(long) {
		t.Errorf("got %d of %d", len(got), len(long))
	}
}

// Every five minutes, or soon after a failure; what did not change is no new version; what shrank by half is none
// until it is forced.
func TestRun(t *testing.T) {
	t.Parallel()
	path := t.TempDir() // of the real world
	synctest.Test(t, func(t *testing.T) {
		store := filled(t, 100)
		p := publisher(t, store, path)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		start := func() {
			go func() { ended <- p.Run(ctx) }()
			synctest.Wait()
		}
		want := func(version float64, counts ...float64) {
			t.Helper()
			if got := testutil.ToFloat64(p.metrics.version); got != version {
				t.Errorf("got version %v, want %v", got, version)
			}
			for i, outcome := range []string{published, same, shrank, failed} {
				if got := testutil.ToFloat64(p.metrics.total.WithLabelValues(outcome)); got != counts[i] {
					t.Errorf("%s: got %v, want %v", outcome, got, counts[i])
				}
			}
		}
		after := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		if p.Ready() {
			t.Error("it is ready before anything was published")
		}
		after(time.Second)
		start()
		want(1, 1, 0, 0, 0)
		after(5 * time.Minute)
		want(1, 1, 1, 0, 0)
		if err := store.Delete(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		after(5 * time.Minute)
		want(2, 2, 1, 0, 0)
		store.down.Store(true)
		after(5 * time.Minute)
		after(retry)
		want(2, 2, 1, 0, 2)
		if !p.Ready() {
			t.Error("it is not ready after a failure")
		}
		after(15 * time.Minute)
		if p.Ready() {
			t.Error("it is ready, and published nothing for a quarter of an hour")
		}
		store.down.Store(false)
		for id := int64(99); id > 40; id-- {
			if err := store.Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		after(retry)
		if n := testutil.ToFloat64(p.metrics.total.WithLabelValues(shrank)); n != 1 || p.Ready() {
			t.Errorf("got %v that shrank, and ready %v", n, p.Ready())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, err := p.Once(t.Context(), snapshot.Options{}); !errors.Is(err, snapshot.ErrShrank) {
			t.Errorf("got %v", err)
		}
		if s := once(t, p, snapshot.Options{Force: true}); s.Manifest.Version != 3 {
			t.Errorf("got version %d", s.Manifest.Version)
		}
		if s, err := p.RollBack(t.Context(), 2); err != nil || s.Manifest.Version != 4 || len(s.Pages()) != 11 {
			t.Errorf("got %v", err)
		}
	})
}

// Of two at once each publishes what it has read; none goes back.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	path, store := t.TempDir(), filled(t, 100)
	ended := make(chan error)
	for range 2 {
		p := publisher(t, store, path)
		go func() {
			var err error
			for version := uint64(0); version < 10 && err == nil; {
				e := feed.Entry{Post: feed.Post{ID: 1000 + time.Now().UnixNano(), Published: time.Now().UnixMilli(), Title: "New", Text: "New"}, Author: feed.Author{ID: 1, Name: "Noor"}}
				var s *snapshot.Snapshot
				if err = store.Put(t.Context(), &e); err == nil {
					s, err = p.Once(t.Context(), snapshot.Options{})
				}
				if err == nil {
					version = s.Manifest.Version
					if !bytes.Contains(s.Whole(), fmt.Appendf(nil, `"id":%d,`, e.ID)) {
						err = errors.New("the post is not there")
					}
				}
			}
			ended <- err
		}()
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(c *Config){
		"0 posts: publish 1 to 10000": func(c *Config) { c.Posts = 0 },
		"10001 posts":                 func(c *Config) { c.Posts = MaxPosts + 1 },
		"published every 10ms":        func(c *Config) { c.Every = 10 * time.Millisecond },
		"timeout is 0s":               func(c *Config) { c.Timeout = 0 },
		"missing":                     func(c *Config) { c.Store = nil },
	} {
		cfg := publisher(t, &feedtest.Memory{}, t.TempDir()).cfg
		cfg.Registerer = prometheus.NewRegistry()
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
