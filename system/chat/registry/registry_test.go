package registry

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"

	"loadstone/block/pause"
	"loadstone/block/servertest"
	"loadstone/system/chat"
)

const long = time.Minute // more than anything takes that does not hang

func open(t *testing.T, address string) *Registry {
	t.Helper()
	c := DefaultConfig()
	c.Address, c.Look, c.Timeout = address, 10*time.Millisecond, long // a busy machine's database answers
	r, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, r.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// until waits until something is true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(long); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is not so: " + what)
		}
	}
}

// One server for all: it takes seconds to make.
func TestRegistry(t *testing.T) {
	t.Parallel()
	db := servertest.MariaDB(t)
	a, b := open(t, db.Address()), open(t, db.Address())
	if len(a.Key()) != keyBytes || string(a.Key()) != string(b.Key()) {
		t.Fatalf("the keys are %x and %x", a.Key(), b.Key())
	}
	t.Run("the database does not wait for a lock when the caller has given up", func(t *testing.T) {
		for timeout, want := range map[time.Duration]int{time.Second: 1, 3 * time.Second: 1, 20 * time.Second: 10} {
			c := DefaultConfig()
			c.Address, c.Timeout = db.Address(), timeout
			shared, err := c.Connect()
			if err != nil {
				t.Fatal(err)
			}
			var got int
			until(t, "the database answers in time", func() bool {
				return shared.QueryRowContext(t.Context(), `SELECT @@innodb_lock_wait_timeout`).Scan(&got) == nil
			})
			if err := shared.Close(); err != nil || got != want {
				t.Errorf("with %v a call: got %d s, %v, want %d s", timeout, got, err, want)
			}
		}
	})
	t.Run("what a server that has vanished had locked is free again", func(t *testing.T) {
		c := DefaultConfig()
		c.Address = db.Address()
		shared, err := c.Connect()
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := shared.Close(); err != nil {
				t.Error(err)
			}
		}()
		const locks = `UPDATE chat_meta SET value = value`
		gone, err := shared.BeginTx(t.Context(), nil) // and it says nothing more
		if err != nil {
			t.Fatal(err)
		}
		if _, err := gone.ExecContext(t.Context(), locks); err != nil {
			t.Fatal(err)
		}
		until(t, "another has the lock", func() bool { _, err := shared.ExecContext(t.Context(), locks); return err == nil })
		if err := gone.Commit(); err == nil {
			t.Error("who was taken for gone has committed")
		}
	})
	t.Run("what one starts and ends others see", func(t *testing.T) {
		started := time.UnixMilli(1_800_000_000_123).UTC()
		s, err := a.StartStream(chat.Stream{Title: "노래 🎤", Host: "민수", HostID: "u-1", Started: started})
		if err != nil {
			t.Fatal(err)
		}
		until(t, "the other server has the stream", func() bool { _, err := b.Stream(s.ID); return err == nil })
		if got, _ := b.Stream(s.ID); got != s {
			t.Errorf("got %+v, want %+v", got, s)
		}
		if _, err := b.StartStream(chat.Stream{Title: "two", Host: "x", HostID: "u-1", Started: started}); !errors.Is(err, chat.ErrLive) {
			t.Errorf("a host's second stream: got %v", err)
		}
		if id, live := b.LiveStream("u-1"); !live || id != s.ID {
			t.Errorf("the host's stream is %d, %v", id, live)
		}
		if err := b.EndStream(s.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
		until(t, "it has ended for the other server", func() bool { got, _ := a.Stream(s.ID); return !got.Live() })
		if err := a.EndStream(s.ID, time.Now().Add(time.Hour)); err != nil {
			t.Error(err)
		}
		if _, err := a.StartStream(chat.Stream{Title: "two", Host: "x", HostID: "u-1", Started: started}); err != nil {
			t.Errorf("the host's next stream: %v", err)
		}
	})
	t.Run("of streams started at once each has an id of its own", func(t *testing.T) {
		const many = 8
		ids := make(chan int64, many)
		var all sync.WaitGroup
		for i := range many {
			all.Go(func() {
				s, err := []*Registry{a, b}[i%2].StartStream(chat.Stream{Title: "t", Host: "h", HostID: string(rune('a' + i)), Started: time.Now()})
				if err != nil {
					t.Error(err)
				}
				ids <- s.ID
			})
		}
		all.Wait()
		close(ids)
		seen := map[int64]bool{}
		for id := range ids {
			if seen[id] {
				t.Errorf("two streams have the id %d", id)
			}
			seen[id] = true
		}
	})
	t.Run("ids", func(t *testing.T) {
		if err := a.AddStreams([]chat.Stream{{ID: 1000, Title: "a", Host: "b", Started: time.Now()}, {ID: 1000, Title: "c", Host: "d", Started: time.Now()}}); err != nil {
			t.Error(err)
		}
		if err := b.AddStream(chat.Stream{ID: 1000, Title: "e"}); !errors.Is(err, chat.ErrThere) {
			t.Errorf("got %v", err)
		}
		if err := b.AddStream(chat.Stream{ID: -1, Title: "e"}); err == nil || errors.Is(err, chat.ErrThere) {
			t.Errorf("got %v", err)
		}
		if _, err := b.Stream(77); !errors.Is(err, chat.ErrNoStream) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("what is known stays while the database is away", func(t *testing.T) {
		db.Kill()
		if _, err := a.Stream(1000); err != nil {
			t.Error(err)
		}
		if _, err := a.StartStream(chat.Stream{Title: "t", Host: "h", HostID: "late", Started: time.Now()}); !errors.Is(err, chat.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		db.Start()
		until(t, "a stream can be started again", func() bool {
			_, err := a.StartStream(chat.Stream{Title: "t", Host: "h", HostID: "late", Started: time.Now()})
			return err == nil
		})
	})
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"mysql://u@h/d": true, "mysql://u:p@h:1/d": true, "mysql://h/d": false, "mysql://u@h": false, "mysql://u@h/": false,
		"postgres://u@h/d": false, "": false, "mysql://u:%zz@h/d": false, "mysql://u:secret@/d": false,
	} {
		c := DefaultConfig()
		c.Address = address
		err := c.Validate()
		if (err == nil) != ok {
			t.Errorf("%q: got %v", address, err)
		}
		if err != nil && (strings.Contains(err.Error(), "%zz") || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q: the error shows the password: %v", address, err)
		}
	}
}

// A start waits for the database, says so once, and does not wait for ever.
func TestAStartWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]struct {
		answers, ends, takes time.Duration // the database; who starts; each attempt
		waits                time.Duration
		said                 int
		err                  string
	}{
		"it answers soon":       {answers: time.Second, waits: time.Second},
		"it answers late":       {answers: time.Minute, waits: time.Minute, said: 1},
		"it never answers":      {waits: 2 * time.Minute, said: 1, err: "it has not answered within 2m0s: it ended a connection, or said nothing on it for 3s"},
		"nor does an attempt":   {takes: time.Hour, waits: 2 * time.Minute, err: "it has not answered within 2m0s: context deadline exceeded"},
		"who starts ends first": {ends: 5 * time.Second, waits: 5 * time.Second, said: 1, err: "it ended a connection"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var said []string
				c := DefaultConfig()
				c.Address = "mysql://chat:secret@database/chat"
				c.Failed = func(err error) {
					if time.Since(began) < 2*time.Second {
						t.Errorf("after %v it is said: %v", time.Since(began), err)
					}
					said = append(said, err.Error())
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if k.ends > 0 {
					ctx, cancel = context.WithTimeout(ctx, k.ends)
					defer cancel()
				}
				err := c.Await(ctx, func(ctx context.Context) error {
					if k.takes > 0 && !pause.For(ctx, k.takes) {
						return ctx.Err()
					}
					if k.answers > 0 && time.Since(began) >= k.answers {
						return nil
					}
					return mysql.ErrInvalidConn
				})
				if waited := time.Since(began); waited != k.waits || len(said) != k.said {
					t.Errorf("it waited for %v and said %q, want %v and %d times", waited, said, k.waits, k.said)
				}
				if (err == nil) != (k.err == "") || err != nil && !strings.HasPrefix(err.Error(), k.err) {
					t.Errorf("got %v, want %q", err, k.err)
				}
				for _, sentence := range said {
					if !strings.HasPrefix(sentence, "the database mysql://chat") || strings.Contains(sentence, "secret") || !strings.Contains(sentence, "does not answer yet, and the start waits for it for 2m0s at most: it ended a connection") {
						t.Errorf("it is said: %s", sentence)
					}
				}
			})
		})
	}
}
