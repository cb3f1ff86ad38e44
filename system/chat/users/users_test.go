package users

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/block/account"
	"loadstone/block/servertest"
	"loadstone/system/chat"
	"loadstone/system/chat/registry"
)

const password = "correct horse battery"

// clock is a time that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func open(t *testing.T) (*Store, *clock) {
	t.Helper()
	return openAs(t, DefaultConfig(filepath.Join(t.TempDir(), "users.db")))
}

func openAs(t *testing.T, cfg Config) (*Store, *clock) {
	t.Helper()
	c := &clock{now: time.Unix(1_800_000_000, 0)}
	cfg.PasswordCost, cfg.Now = account.MinCost, c.Now
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, c
}

func add(t *testing.T, s *Store, name string, role chat.Role) *User {
	t.Helper()
	u, there, err := s.Add(t.Context(), New{Email: strings.ToLower(name) + "@show.example", Password: password, Name: name, Role: role})
	if err != nil || there {
		t.Fatalf("add %s: got %v, %v", name, there, err)
	}
	return u
}

func begin(t *testing.T, s *Store, u *User) Session {
	t.Helper()
	session, err := s.Begin(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// everywhere are tests that hold of a file and of a database.
var everywhere = map[string]func(t *testing.T, s *Store, c *clock){
	"sign up":             testSignUp,
	"who may not sign in": testWhoMayNotSignIn,
	"a family ends when a token is used twice": testAFamilyEndsWhenATokenIsUsedTwice,
	"a lost answer is given again":             testALostAnswerIsGivenAgain,
	"an old token signs out":                   testAnOldTokenSignsOut,
	"no session begins after a change":         testNoSessionBeginsAfterAChange,
	"sessions end":                             testSessionsEnd,
	"what has expired goes bit by bit":         testExpired,
	"a start waits for no reader":              testAStartWaitsForNoReader,
	"an older trigger":                         testAnOlderTrigger,
	"no token is stored":                       testNoTokenIsStored,
	"ended":                                    testEnded,
	"elsewhere":                                testElsewhere,
	"followers":                                testFollowers,
	"a user follows so many at most":           testAUserFollowsSoManyAtMost,
	"users of an operator":                     testUsersOfAnOperator,
}

func TestInAFile(t *testing.T) {
	t.Parallel()
	for name, test := range everywhere {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := open(t)
			test(t, s, c)
		})
	}
}

// Each has a database of its own, in one server.
func TestInMariaDB(t *testing.T) {
	t.Parallel()
	server := servertest.MariaDB(t)
	root := registry.DefaultConfig()
	root.Address, root.Timeout = server.Address(), time.Minute // a busy machine's database answers
	db, err := root.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for name, test := range everywhere {
		t.Run(name, func(t *testing.T) {
			own := strings.ReplaceAll(name, " ", "_")
			if _, err := db.ExecContext(t.Context(), "CREATE DATABASE "+own); err != nil {
				t.Fatal(err)
			}
			cfg, at := DefaultConfig(""), root
			at.Address = strings.TrimSuffix(server.Address(), "test") + own
			var err error
			if cfg.Database, err = at.Connect(); err != nil {
				t.Fatal(err)
			}
			s, c := openAs(t, cfg)
			test(t, s, c)
		})
	}
}

// Somebody who signs up twice has the first account, and hears the same.
func testSignUp(t *testing.T, s *Store, _ *clock) {
	t.Helper()
	ctx := t.Context()
	n := New{Email: "Noor@Show.example", Password: password, Name: "Noor", Role: chat.Member}
	if err := s.SignUp(ctx, n); err != nil {
		t.Fatal(err)
	}
	again := n
	again.Password, again.Name, again.Role = "another password", "Thief", chat.Admin
	if err := s.SignUp(ctx, again); err != nil {
		t.Errorf("the second time: got %v, want the answer of the first", err)
	}
	if _, err := s.SignIn(ctx, n.Email, again.Password); !errors.Is(err, chat.ErrSignIn) {
		t.Errorf("the second password: got %v", err)
	}
	u, err := s.SignIn(ctx, "noor@show.EXAMPLE", password)
	if err != nil || u.Name != "Noor" || u.Role != chat.Member || u.Email != "noor@show.example" {
		t.Fatalf("got %+v, %v", u, err)
	}
	if _, err := s.SignIn(ctx, n.Email+" ", password); !errors.Is(err, chat.ErrSignIn) {
		t.Errorf("with a space behind the address: got %v, want that it is another one", err)
	}
	for name, c := range map[string]struct {
		change func(*New)
		want   error
	}{
		"no address":       {func(n *New) { n.Email = "noor" }, chat.ErrEmail},
		"a name before it": {func(n *New) { n.Email = "Noor <noor@show.example>" }, chat.ErrEmail},
		"a long address":   {func(n *New) { n.Email = strings.Repeat("n", 250) + "@show.example" }, chat.ErrEmail},
		"a terminal's":     {func(n *New) { n.Email = "\u202enoor@show.example" }, chat.ErrEmail},
		"a line's end":     {func(n *New) { n.Email = "no\u2028or@show.example" }, chat.ErrEmail},
		"nobody's letter":  {func(n *New) { n.Email = "noor\ue000@show.example" }, chat.ErrEmail},
		"a short password": {func(n *New) { n.Password = "short" }, chat.ErrPassword},
		"a long password":  {func(n *New) { n.Password = strings.Repeat("x", 73) }, chat.ErrPassword},
		"no name":          {func(n *New) { n.Name = "" }, chat.ErrName},
	} {
		bad := n
		c.change(&bad)
		if err := s.SignUp(ctx, bad); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func testWhoMayNotSignIn(t *testing.T, s *Store, _ *clock) {
	t.Helper()
	ctx := t.Context()
	noor := add(t, s, "Noor", chat.Member)
	elsewhere, err := s.FromElsewhere(ctx, Elsewhere{Issuer: "https://id.example", Subject: "1", Name: "Olga"})
	if err != nil {
		t.Fatal(err)
	}
	session := begin(t, s, noor)
	if err := s.SetDisabled(ctx, noor.ID, true); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{noor.Email, password}, {"nobody@show.example", password}, {"", ""}, {elsewhere.ID, ""}, {noor.ID, password}} {
		if u, err := s.SignIn(ctx, c[0], c[1]); !errors.Is(err, chat.ErrSignIn) {
			t.Errorf("%q: got %+v, %v", c, u, err)
		}
	}
	if _, _, err := s.Refresh(ctx, session.Refresh); !errors.Is(err, chat.ErrToken) {
		t.Errorf("a session of who is disabled: got %v", err)
	}
	if err := s.SetPassword(ctx, elsewhere.ID, password); !errors.Is(err, chat.ErrNoUser) {
		t.Errorf("a password for who signs in elsewhere: got %v", err)
	}
	if err := s.SetDisabled(ctx, noor.ID, false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SignIn(ctx, noor.Email, password); err != nil {
		t.Errorf("enabled: got %v", err)
	}
}

// A refresh token is good once. Shown later a second time it ends its family, with the good one.
func testAFamilyEndsWhenATokenIsUsedTwice(t *testing.T, s *Store, c *clock) {
	t.Helper()
	ctx := t.Context()
	noor := add(t, s, "Noor", chat.Member)
	first, other := begin(t, s, noor), begin(t, s, noor)
	u, second, err := s.Refresh(ctx, first.Refresh)
	if err != nil || u.ID != noor.ID || second.Refresh == first.Refresh {
		t.Fatalf("got %+v, %+v, %v", u, second, err)
	}
	c.pass(lost)
	if _, _, err := s.Refresh(ctx, first.Refresh); !errors.Is(err, ErrReused) || !errors.Is(err, chat.ErrToken) {
		t.Errorf("the first again: got %v", err)
	}
	if _, _, err := s.Refresh(ctx, second.Refresh); !errors.Is(err, chat.ErrToken) {
		t.Errorf("the second after that: got %v", err)
	}
	if _, other, err = s.Refresh(ctx, other.Refresh); err != nil {
		t.Errorf("another family: got %v", err)
	}
	if err := errors.Join(s.End(ctx, "x"), s.End(ctx, other.Refresh)); err != nil {
		t.Fatal(err)
	}
	third := begin(t, s, noor)
	for _, bad := range []string{other.Refresh, "", ".", "x", "x.y", strings.Replace(third.Refresh, ".", " .", 1)} {
		if _, _, err := s.Refresh(ctx, bad); !errors.Is(err, chat.ErrToken) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

// Tabs that use a token at a time, or again after an answer was lost, have the same next one, and
// that is good.
func testALostAnswerIsGivenAgain(t *testing.T, s *Store, _ *clock) {
	t.Helper()
	session := begin(t, s, add(t, s, "Noor", chat.Member))
	results := make(chan Session, 8)
	for range cap(results) {
		go func() {
			_, next, err := s.Refresh(context.WithoutCancel(t.Context()), session.Refresh)
			if err != nil {
				t.Error(err)
			}
			results <- next
		}()
	}
	next := <-results
	for range cap(results) - 1 {
		if other := <-results; other.Refresh != next.Refresh || !other.Until.Equal(next.Until) {
			t.Errorf("got %+v and %+v", next, other)
		}
	}
	_, third, err := s.Refresh(t.Context(), next.Refresh)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Refresh(t.Context(), session.Refresh); !errors.Is(err, ErrReused) {
		t.Errorf("the first after the third was given: got %v", err)
	}
	if _, _, err := s.Refresh(t.Context(), third.Refresh); !errors.Is(err, chat.ErrToken) {
		t.Errorf("the third after that: got %v", err)
	}
}

// Who signs out ends the session, whichever of its tokens the browser still has.
func testAnOldTokenSignsOut(t *testing.T, s *Store, _ *clock) {
	t.Helper()
	first := begin(t, s, add(t, s, "Noor", chat.Member))
	_, second, err := s.Refresh(t.Context(), first.Refresh)
	if err := errors.Join(err, s.End(t.Context(), first.Refresh)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Refresh(t.Context(), second.Refresh); !errors.Is(err, chat.ErrToken) {
		t.Errorf("got %v", err)
	}
}

// A password that is changed, or a user that is disabled, while somebody signs in: no session is left.
func testNoSessionBeginsAfterAChange(t *testing.T, s *Store, _ *clock) {
	t.Helper()
	ctx := t.Context()
	noor, olga := add(t, s, "Noor", chat.Member), add(t, s, "Olga", chat.Member)
	for name, c := range map[string]struct {
		u      *User
		change error
	}{"another password": {noor, s.SetPassword(ctx, noor.ID, "another password")}, "disabled": {olga, s.SetDisabled(ctx, olga.ID, true)}} {
		if c.change != nil {
			t.Fatal(c.change)
		}
		if session, err := s.Begin(ctx, c.u); !errors.Is(err, chat.ErrSignIn) {
			t.Errorf("%s: got %+v, %v", name, session, err)
		}
	}
	var left int
	if err := s.reads.QueryRowContext(ctx, `SELECT count(*) FROM sessions`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d sessions, %v", left, err)
	}
}

// Nobody else on the machine reads the hashes, whoever may look into the directory.
func TestTheFileIsItsOwners(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]bool{"made": false, "found": true} {
		path := filepath.Join(t.TempDir(), "users.db")
		if made {
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cfg := DefaultConfig(path)
		cfg.PasswordCost = account.MinCost
		s, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		add(t, s, "Noor", chat.Member)
		files, err := filepath.Glob(path + "*")
		if err != nil || len(files) < 2 {
			t.Fatalf("got %q, %v", files, err)
		}
		for _, file := range files {
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s, %s: got %v, %v", name, filepath.Base(file), info.Mode(), err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A file of the first version is brought to the current one, with its sessions.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	session := begin(t, s, add(t, s, "Noor", chat.Member))
	for _, statement := range []string{
		`ALTER TABLE users DROP COLUMN vouched`, `DROP TRIGGER session_ended`, `DROP TABLE ended`, `ALTER TABLE sessions DROP COLUMN mark`,
		`ALTER TABLE sessions DROP COLUMN before`, `ALTER TABLE sessions DROP COLUMN salt`, `ALTER TABLE sessions DROP COLUMN rotated`, `PRAGMA user_version = 1`,
	} {
		if _, err := s.writes.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.file.Make(t.Context(), tables); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Refresh(t.Context(), session.Refresh); err != nil {
		t.Error(err)
	}
}

func testSessionsEnd(t *testing.T, s *Store, c *clock) {
	t.Helper()
	ctx := t.Context()
	noor := add(t, s, "Noor", chat.Member)
	idle := begin(t, s, noor)
	c.pass(s.cfg.Idle - time.Second)
	if _, err := s.InSession(ctx, noor.ID, noor.session); err != nil {
		t.Errorf("one that is about to expire: got %v", err)
	}
	c.pass(time.Second)
	if _, err := s.InSession(ctx, noor.ID, noor.session); !errors.Is(err, chat.ErrNoUser) {
		t.Errorf("one that has expired lets somebody in: got %v", err)
	}
	if _, _, err := s.Refresh(ctx, idle.Refresh); !errors.Is(err, chat.ErrToken) {
		t.Errorf("one that was not used: got %v", err)
	}
	used, began := begin(t, s, noor), c.Now()
	var err error
	for err == nil {
		c.pass(s.cfg.Idle - time.Hour)
		var next Session
		if _, next, err = s.Refresh(ctx, used.Refresh); err == nil {
			used = next
		}
	}
	if lived := c.Now().Sub(began); !errors.Is(err, chat.ErrToken) || lived < s.cfg.Longest || lived > s.cfg.Longest+s.cfg.Idle {
		t.Errorf("one that is used all the time: ended after %v, %v", lived, err)
	}
	all := make([]Session, maxSessions+1)
	for i := range all {
		all[i] = begin(t, s, noor)
		c.pass(time.Second)
	}
	for i, session := range all {
		if _, _, err := s.Refresh(ctx, session.Refresh); (err == nil) != (i > 0) {
			t.Errorf("session %d of %d: got %v", i, len(all), err)
		}
	}
	last := begin(t, s, noor)
	if err := s.SetPassword(ctx, noor.ID, "another password"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Refresh(ctx, last.Refresh); !errors.Is(err, chat.ErrToken) {
		t.Errorf("after another password: got %v", err)
	}
}

// Sessions that have expired go while the users are served, from the start on, which does not wait for it. Others who begin or
// end sessions do not wait for all of them, and nobody hears of them.
func testExpired(t *testing.T, s *Store, c *clock) {
	t.Helper()
	ctx := t.Context()
	lasts := begin(t, s, add(t, s, "Noor", chat.Member))
	turns := func() (n int) {
		t.Helper()
		if s.file == nil {
			if err := s.reads.QueryRowContext(ctx, `SELECT number FROM users_turn`).Scan(&n); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	left := func() (ids []string) {
		t.Helper()
		rows, err := s.reads.QueryContext(ctx, `SELECT id FROM sessions`)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }() // it only read
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return ids
	}
	check := func(before int) {
		t.Helper()
		if ids := left(); len(ids) != 1 || !strings.HasPrefix(lasts.Refresh, ids[0]+".") {
			t.Errorf("left are %q", ids)
		}
		if n := turns() - before; s.file == nil && n < 3 {
			t.Errorf("%d sessions ended in %d transactions, want no more than %d in each", 2*expiredAtOnce+1, n, expiredAtOnce)
		}
	}
	out := begin(t, s, add(t, s, "Olga", chat.Member))
	if err := s.End(ctx, out.Refresh); err != nil {
		t.Fatal(err)
	}
	addExpired(t, s, c)
	was := left()
	again, err := Open(ctx, s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if ids := left(); len(ids) != len(was) {
		t.Errorf("the start ended %d sessions of %d", len(was)-len(ids), len(was))
	}
	for _, every := range []time.Duration{time.Hour, time.Millisecond} { // the first time is at once, and of the second more come later
		again.cfg.Expire = every
		before := turns()
		running, stop := context.WithTimeout(ctx, time.Minute)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			again.Run(running, func(err error) { t.Error(err) })
		}()
		if every == time.Millisecond {
			addExpired(t, s, c)
		}
		for len(left()) > 1 && running.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		stop()
		<-ended
		check(before)
	}
	id, _, _ := strings.Cut(out.Refresh, ".")
	if heard, _, err := s.Ended(ctx, 0); err != nil || !slices.Equal(heard, []string{mark(id)}) {
		t.Errorf("of %d sessions that ended, of which one had not expired, %d are heard of, %v", 2*len(was)-1, len(heard), err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// A start waits for nobody who reads, as a backup does.
func testAStartWaitsForNoReader(t *testing.T, s *Store, _ *clock) {
	t.Helper()
	ctx := t.Context()
	begin(t, s, add(t, s, "Noor", chat.Member))
	backup, err := s.reads.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = backup.Rollback() }() // it only read
	var n int
	if err := backup.QueryRowContext(ctx, `SELECT count(*) FROM sessions`).Scan(&n); err != nil || n != 1 {
		t.Fatalf("got %d sessions, %v", n, err)
	}
	again, err := Open(ctx, s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if again.file != nil {
		err = again.Close()
	}
	if err != nil {
		t.Error(err)
	}
}

// What was made before sessions that expired were left out notes them no longer.
func testAnOlderTrigger(t *testing.T, s *Store, c *clock) {
	t.Helper()
	ctx := t.Context()
	older := []string{
		`DROP TRIGGER session_ended`, strings.Replace(endedTrigger, `WHEN OLD.mark <> '' `, "", 1), `PRAGMA user_version = 4`,
	}
	if s.file == nil {
		older = []string{`DROP TRIGGER session_ended_early`, `CREATE TRIGGER session_ended AFTER DELETE ON sessions FOR EACH ROW INSERT INTO ended (session) VALUES (OLD.mark)`}
	}
	for _, statement := range older {
		if _, err := s.writes.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Open(ctx, s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	addExpired(t, s, c)
	out := begin(t, s, add(t, s, "Noor", chat.Member))
	if err := errors.Join(again.expire(ctx), again.End(ctx, out.Refresh)); err != nil {
		t.Fatal(err)
	}
	id, _, _ := strings.Cut(out.Refresh, ".")
	if heard, _, err := again.Ended(ctx, 0); err != nil || !slices.Equal(heard, []string{mark(id)}) {
		t.Errorf("%d sessions are heard of, %v, want the one that did not expire", len(heard), err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// addExpired adds sessions that have expired, for more than two transactions.
func addExpired(t *testing.T, s *Store, c *clock) {
	t.Helper()
	ctx := t.Context()
	tx, err := s.writes.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2*expiredAtOnce + 1 {
		if _, err := tx.ExecContext(ctx, `INSERT INTO sessions (id, mark, user, secret, began, until) VALUES (?, ?, 'user-x', x'', 0, ?)`, fmt.Sprint(i), mark(fmt.Sprint(i)), c.Now().Unix()-int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// Who has let somebody in hears of each end once, in order.
func testEnded(t *testing.T, s *Store, _ *clock) {
	t.Helper()
	ctx := t.Context()
	noor, olga := add(t, s, "Noor", chat.Member), add(t, s, "Olga", chat.Member)
	one, two, three := begin(t, s, noor), begin(t, s, noor), begin(t, s, olga)
	if err := errors.Join(s.End(ctx, two.Refresh), s.SetRole(ctx, olga.ID, chat.Host), s.SetDisabled(ctx, noor.ID, true)); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, session := range []Session{two, three, one} {
		id, _, _ := strings.Cut(session.Refresh, ".")
		want = append(want, mark(id))
	}
	ended, last, err := s.Ended(ctx, 0)
	if err != nil || !slices.Equal(ended, want) {
		t.Errorf("got %q, %v, want %q", ended, err, want)
	}
	if more, again, err := s.Ended(ctx, last); err != nil || len(more) != 0 || again != last {
		t.Errorf("after that: got %q, %d, %v", more, again, err)
	}
}

// What is in the file lets nobody in.
func testNoTokenIsStored(t *testing.T, s *Store, _ *clock) {
	t.Helper()
	session := begin(t, s, add(t, s, "Noor", chat.Member))
	_, secret, _ := strings.Cut(session.Refresh, ".")
	var found int
	if err := s.reads.QueryRowContext(t.Context(), `SELECT count(*) FROM sessions WHERE secret = ?`, []byte(secret)).Scan(&found); err != nil || found != 0 {
		t.Errorf("got %d, %v", found, err)
	}
	if err := s.reads.QueryRowContext(t.Context(), `SELECT count(*) FROM sessions WHERE secret = ?`, secretHash(secret)).Scan(&found); err != nil || found != 1 {
		t.Errorf("its hash: got %d, %v", found, err)
	}
}

func testElsewhere(t *testing.T, s *Store, _ *clock) {
	t.Helper()
	ctx := t.Context()
	add(t, s, "Noor", chat.Admin)
	who := Elsewhere{Issuer: "https://id.example", Subject: "1", Name: "noor@show.example", Picture: "https://id.example/1.png"}
	u, err := s.FromElsewhere(ctx, who)
	if err != nil || u.Role != chat.Member || u.Email != "" || u.Picture != who.Picture {
		t.Fatalf("got %+v, %v", u, err)
	}
	if err := s.SetProfile(ctx, u.ID, "Nour", ""); err != nil {
		t.Fatal(err)
	}
	again, err := s.FromElsewhere(ctx, who)
	if err != nil || again.ID != u.ID || again.Name != "Nour" {
		t.Errorf("the second time: got %+v, %v", again, err)
	}
	spaced := who
	spaced.Subject += " "
	if other, err := s.FromElsewhere(ctx, spaced); !errors.Is(err, chat.ErrSignIn) {
		t.Errorf("a subject with a space behind it: got %+v, %v, want that it is nobody's, of whom %s is", other, err, u.ID)
	}
	who.Issuer = "https://other.example"
	if other, err := s.FromElsewhere(ctx, who); err != nil || other.ID == u.ID {
		t.Errorf("the same subject of another issuer: got %+v, %v", other, err)
	}
	who.Picture = "http://id.example/1.png"
	if _, err := s.FromElsewhere(ctx, who); !errors.Is(err, chat.ErrPicture) {
		t.Errorf("a picture without https: got %v", err)
	}
}

func testFollowers(t *testing.T, s *Store, c *clock) {
	t.Helper()
	ctx := t.Context()
	host, noor, olga := add(t, s, "Ada", chat.Host), add(t, s, "Noor", chat.Member), add(t, s, "Olga", chat.Member)
	check := func(user *User, want chat.Relation, followers int) {
		t.Helper()
		got, err := s.Relation(ctx, user.ID, host.ID)
		h, err2 := s.Find(ctx, host.ID)
		if errors.Join(err, err2) != nil || got != want || h.Followers != followers {
			t.Errorf("%s: got %+v and %d followers, %v, want %+v and %d", user.Name, got, h.Followers, errors.Join(err, err2), want, followers)
		}
	}
	if err := errors.Join(s.Follow(ctx, noor.ID, host.ID), s.Follow(ctx, noor.ID, host.ID), s.Follow(ctx, olga.ID, host.ID)); err != nil {
		t.Fatal(err)
	}
	check(noor, chat.Relation{Follows: true}, 2)
	if err := errors.Join(s.Unfollow(ctx, noor.ID, host.ID), s.Unfollow(ctx, noor.ID, host.ID)); err != nil {
		t.Fatal(err)
	}
	check(noor, chat.Relation{}, 1)
	for name, pair := range map[string][2]string{"oneself": {host.ID, host.ID}, "who is no host": {host.ID, noor.ID}, "nobody": {noor.ID, "user-x"}} {
		if err := s.Follow(ctx, pair[0], pair[1]); !errors.Is(err, chat.ErrNoUser) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := s.Subscribe(ctx, noor.ID, host.ID, c.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	check(noor, chat.Relation{Subscribes: true}, 1)
	c.pass(time.Hour)
	check(noor, chat.Relation{}, 1)
	if err := errors.Join(s.Subscribe(ctx, noor.ID, host.ID, c.Now().Add(time.Hour)), s.Subscribe(ctx, noor.ID, host.ID, c.Now())); err != nil {
		t.Fatal(err)
	}
	check(noor, chat.Relation{}, 1)
	if err := s.Subscribe(ctx, "user-x", host.ID, c.Now().Add(time.Hour)); !errors.Is(err, chat.ErrNoUser) {
		t.Errorf("nobody subscribes: got %v", err)
	}
}

func testAUserFollowsSoManyAtMost(t *testing.T, s *Store, _ *clock) {
	t.Helper()
	noor, host := add(t, s, "Noor", chat.Member), add(t, s, "Ada", chat.Host)
	tx, err := s.writes.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxFollowed {
		if _, err := tx.ExecContext(t.Context(), `INSERT INTO follows VALUES (?, ?, 0)`, noor.ID, fmt.Sprint("user-", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := s.Follow(t.Context(), noor.ID, host.ID); !errors.Is(err, chat.ErrTooMany) {
		t.Errorf("got %v", err)
	}
}

func testUsersOfAnOperator(t *testing.T, s *Store, _ *clock) {
	t.Helper()
	ctx := t.Context()
	noor := add(t, s, "Noor", chat.Member)
	if _, there, err := s.Add(ctx, New{Email: noor.Email, Password: password, Name: "Noor", Role: chat.Host}); !there || err != nil {
		t.Errorf("a second time: got %v, %v", there, err)
	}
	if err := s.SetRole(ctx, noor.ID, chat.Host); err != nil {
		t.Fatal(err)
	}
	vouched := func(email string, want bool) {
		t.Helper()
		if u, err := s.Find(ctx, email); err != nil || u.Vouched != want {
			t.Errorf("%s: got %+v, %v, want %v", email, u, err, want)
		}
	}
	vouched(noor.Email, true)
	eve := New{Email: "eve@show.example", Password: password, Name: "Eve", Role: chat.Member}
	if err := errors.Join(s.SignUp(ctx, eve), s.SignUp(ctx, New{Email: noor.Email, Password: password, Name: "Eve", Role: chat.Member})); err != nil {
		t.Fatal(err)
	}
	vouched(noor.Email, true)
	vouched(eve.Email, false)
	u, there, err := s.Add(ctx, eve)
	if !there || err != nil {
		t.Errorf("who signed up before: got %v, %v", there, err)
	}
	vouched(eve.Email, false)
	if err := s.SetPassword(ctx, u.ID, "another password"); err != nil {
		t.Fatal(err)
	}
	vouched(eve.Email, true)
	if _, err := s.writes.ExecContext(ctx, `DELETE FROM users WHERE id = ?`, u.ID); err != nil {
		t.Fatal(err)
	}
	var all []User
	if err := s.Each(ctx, func(u *User) error { all = append(all, *u); return nil }); err != nil || len(all) != 1 || all[0].Role != chat.Host || all[0].Email != noor.Email {
		t.Errorf("got %+v, %v", all, err)
	}
	for name, err := range map[string]error{
		"role of nobody": s.SetRole(ctx, "x", chat.Host), "disable nobody": s.SetDisabled(ctx, "x", true), "profile of nobody": s.SetProfile(ctx, "x", "X", ""),
		"password of nobody": s.SetPassword(ctx, "x", password),
	} {
		if !errors.Is(err, chat.ErrNoUser) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := s.SetRole(ctx, noor.ID, "king"); err == nil {
		t.Error("a role that is none was given")
	}
	if err := s.SetPassword(ctx, noor.ID, "short"); !errors.Is(err, chat.ErrPassword) {
		t.Errorf("a short password: got %v", err)
	}
	if err := s.SetProfile(ctx, noor.ID, "Noor", "http://x.example/"); !errors.Is(err, chat.ErrPicture) {
		t.Errorf("a picture without https: got %v", err)
	}
}

// What joining a room, or any request with an access token, costs for looking the user up.
func BenchmarkFind(b *testing.B) {
	cfg := DefaultConfig(filepath.Join(b.TempDir(), "users.db"))
	cfg.PasswordCost = account.MinCost
	s, err := Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	u, err := s.FromElsewhere(b.Context(), Elsewhere{Issuer: "https://id.example", Subject: "1", Name: "Noor"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Find(b.Context(), u.ID); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
