package account

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"
)

func TestPasswords(t *testing.T) {
	t.Parallel()
	p, err := NewPasswords(MinCost)
	if err != nil {
		t.Fatal(err)
	}
	const password = "correct horse battery"
	hash, err := p.Hash(t.Context(), password)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		hash, password string
		want           bool
	}{{hash, password, true}, {hash, password + " ", false}, {hash, "", false}, {"", password, false}, {"no hash", password, false}} {
		if got, err := p.Match(t.Context(), c.hash, c.password); got != c.want || err != nil {
			t.Errorf("%q with %q: got %v, %v", c.hash, c.password, got, err)
		}
	}
	if cost, err := bcrypt.Cost([]byte(p.nobody)); cost != MinCost || err != nil {
		t.Errorf("nobody's password is checked at cost %d, %v, and others' at %d", cost, err, MinCost)
	}
	if err := bcrypt.CompareHashAndPassword([]byte(p.nobody), []byte(password)); !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
		t.Errorf("nobody's hash is not checked to its end: got %v", err)
	}
	for _, bad := range []string{"short", strings.Repeat("x", MaxPassword+1)} {
		if _, err := p.Hash(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "write 12 to 72") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	for _, cost := range []int{MinCost - 1, largestCost + 1} {
		if _, err := NewPasswords(cost); err == nil {
			t.Errorf("cost %d was taken", cost)
		}
	}
}

func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		turns := NewTurns()
		results := make(chan error, 100)
		for range cap(results) {
			go func() {
				results <- turns.Do(t.Context(), func() {
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(time.Second)
					now.Add(-1)
				})
			}()
		}
		done := 0
		for range cap(results) {
			switch err := <-results; {
			case err == nil:
				done++
			case !errors.Is(err, ErrBusy):
				t.Error(err)
			}
		}
		if done < hashing || done > hashing*(1+int(hashTimeout/time.Second)) || most.Load() > hashing {
			t.Errorf("got %d done, %d at a time", done, most.Load())
		}
	})
}
