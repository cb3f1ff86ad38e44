package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"loadstone/block/account"
	"loadstone/block/servertest"
	"loadstone/system/chat"
)

// What servers that share a database do while it does not answer. One for all: it takes seconds to make.
func TestTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	db := servertest.MariaDB(t)
	cfg := DefaultConfig()
	cfg.PasswordCost, cfg.Cluster.Registry.Address = account.MinCost, db.Address()
	s := newServer(cfg, slog.New(slog.DiscardHandler))
	// waits checks that a start waits until it is ended.
	waits := func(what string, patience time.Duration) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := s.openPeople(ctx); err == nil || ctx.Err() == nil {
			t.Fatalf("%s: it ended with %v, while its context had %v", what, err, ctx.Err())
		}
	}
	opens := func(what string) {
		t.Helper()
		_, err := s.openPeople(t.Context())
		if err == nil {
			err = s.people.Close()
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	db.Kill()
	waits("it is not there", time.Second)
	db.Start()
	opens("it is there")

	patient := cfg.Cluster.Registry
	patient.Timeout = 3 * long // for which what it has locked stays so
	other, err := patient.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}()
	begins, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := begins.ExecContext(t.Context(), `UPDATE users_turn SET number = number + 1`); err != nil {
		t.Fatal(err)
	}
	waits("it is another's turn for longer than the database waits", 5*time.Second)
	if err := begins.Rollback(); err != nil {
		t.Fatal(err)
	}
	opens("it is nobody's turn")

	// It takes what is asked and says nothing: the token's word counts, nobody is anything to a host, and the request has time left.
	s.cfg.Cluster.Registry = patient
	if _, err := s.openPeople(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.people.Close(); err != nil {
			t.Error(err)
		}
	}()
	u := chat.User{ID: "user-noor", Name: "Noor", Role: chat.Member, Session: "ended"}
	if got, err := s.now(t.Context(), u); !errors.Is(err, chat.ErrToken) {
		t.Errorf("while it answers: got %+v, %v", got, err)
	}
	s.cfg.Cluster.Registry = cfg.Cluster.Registry // the connections wait for as long as before
	request, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	db.Pause()
	got, err := s.now(request, u)
	relation, unknown := s.relation(request, u.ID, "user-olga")
	db.Resume()
	if got != u || err != nil || relation != (chat.Relation{}) || unknown != nil || request.Err() != nil {
		t.Errorf("while it says nothing: got %+v, %v, %+v, %v, and the request has %v", got, err, relation, unknown, request.Err())
	}
}

// What would never pass is no reason to wait.
func TestACostOfPasswordsIsChecked(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if c.PasswordCost = 1; c.Validate() == nil {
		t.Error("it is valid")
	}
}

// A session that has ended is remembered for a while, and so many of them are.
func TestEndingsAreRemembered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var e endings
		e.add([]string{"one"}, time.Minute)
		time.Sleep(time.Minute)
		e.add([]string{"two"}, time.Minute)
		time.Sleep(time.Minute)
		e.add([]string{"three"}, time.Minute)
		time.Sleep(time.Minute)
		if !e.has("one") || !e.has("two") || !e.has("three") || e.has("four") || e.has("") {
			t.Errorf("within a minute of what is added next: got %v and %v", e.young, e.old)
		}
		for i := range 3 * mostEndings {
			e.add([]string{fmt.Sprint(i)}, time.Hour)
		}
		if !e.has(fmt.Sprint(2*mostEndings)) || !e.has(fmt.Sprint(3*mostEndings-1)) || len(e.young)+len(e.old) > 2*mostEndings {
			t.Errorf("of %d the last %d are not known, or %d are", 3*mostEndings, mostEndings, len(e.young)+len(e.old))
		}
	})
}
