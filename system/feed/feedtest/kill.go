package feedtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/feed"
)

// writerVariable makes a test binary the process that is killed, see Kill: it holds the place of
// the store.
const writerVariable = "FEEDTEST_WRITER"

// The writers of the process that is killed, each with a post of its own, how many
// acknowledgements of each the test reads before it kills, which are for all that is done to a
// post, and how long it waits for them on a machine that does other things.
const (
	writers   = 4
	killAfter = 3
	patience  = 5 * time.Minute
)

// IsWriter reports whether this process was started by Kill. TestMain asks, and gives Writer's
// result to os.Exit.
func IsWriter() bool { return os.Getenv(writerVariable) != "" } //nolint:forbidigo // only tests call this

// Writer changes posts and prints each change that was acknowledged, until it is killed. It
// returns the status of a process that could not.
func Writer(open func(place string) (feed.Store, error)) int {
	store, err := open(os.Getenv(writerVariable)) //nolint:forbidigo // only tests call this
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var all sync.WaitGroup
	for w := range int64(writers) {
		all.Go(func() { fmt.Fprintln(os.Stderr, changeForEver(store.(feed.Desk), w+1)) })
	}
	all.Wait()
	return 1
}

// changeForEver edits a post, takes it down and puts it back, and prints what was acknowledged: its id, its
// version, and what was done. It is one write of one line: what the reader sees whole was
// acknowledged.
func changeForEver(d feed.Desk, id int64) error {
	ctx := context.Background() // the life of a process that is killed
	k, err := d.Entry(ctx, id)
	if err == nil && k.Down { // what the one before left behind
		if _, err := d.Apply(ctx, feed.Change{Action: feed.PutBack, Editor: "killed", Post: id}, nil, feed.Condition{}); err != nil {
			return err
		}
	}
	for n := k.Version; ; n++ {
		e := numbered(id, n)
		for _, action := range []feed.Action{feed.Written, feed.TakenDown, feed.PutBack} {
			what := &e
			if action != feed.Written {
				what = nil
			}
			var c feed.Change
			if c, err = d.Apply(ctx, feed.Change{Action: action, Editor: "killed", Post: id}, what, feed.Condition{}); err != nil {
				return err
			}
			if _, err = fmt.Fprintf(os.Stdout, "%d %d %s %d\n", id, c.Number, c.Action, n); err != nil {
				return err
			}
		}
	}
}

// numbered is a post whose parts all say a number.
func numbered(id, n int64) feed.Entry {
	e := Odd(id, id, 0)
	text := fmt.Sprint(n)
	e.Text, e.Media[0].Alt, e.Reactions[0].Count = text, text, n+1
	for range 3 {
		e.Comments = append(e.Comments, feed.Comment{Author: "Ö", Published: 1, Text: text})
	}
	e.Complete()
	return e
}

// acknowledged is a change that the process said was stored.
type acknowledged struct {
	id, version int64
	action      feed.Action
	number      int64
}

// Kill kills a process that changes the store at the place with SIGKILL, twice, and looks after each for what
// it said was stored.
func Kill(t *testing.T, place string, open Open) {
	t.Helper()
	for range 2 { // the second begins with what the first left behind
		last := changeAndKill(t, place)
		d := desk(t, open)
		for _, a := range last {
			a.check(t, d)
		}
	}
}

// check looks for what was acknowledged last of a post. The change after it may have taken place as well.
func (a acknowledged) check(t *testing.T, d feed.Desk) {
	t.Helper()
	// Its database may still be at what it was told last. Who wants to change the post waits for that.
	e := numbered(a.id, a.number)
	if _, err := d.Apply(t.Context(), feed.Change{Action: feed.Written, Editor: "ada", Post: a.id}, &e, absent); !errors.Is(err, feed.ErrChanged) {
		t.Fatalf("post %d was acknowledged, and writing it if it is absent: got %v, want %v", a.id, err, feed.ErrChanged)
	}
	k, err := d.Entry(t.Context(), a.id)
	if err != nil {
		t.Fatalf("post %d was acknowledged: %v", a.id, err)
	}
	log, err := d.Changes(t.Context(), a.id, 0, 2)
	if err != nil || len(log) != 2 {
		t.Fatalf("the log of post %d has %+v, %v", a.id, log, err)
	}
	number, now := a.number, log[0]
	if now.Number != a.version { // one more
		if log[1].Number != a.version || log[1].Action != a.action {
			t.Errorf("post %d: the log ends with %+v, acknowledged was %+v", a.id, log, a)
		}
		if now.Action == feed.Edited {
			number++
		}
	}
	if k.Version != now.Number || k.Down != (now.Action == feed.TakenDown) {
		t.Errorf("post %d has version %d, down %v, and the log ends with %+v", a.id, k.Version, k.Down, now)
	}
	e = numbered(a.id, number)
	wantEntry(t, d, &e, k.Version, k.Down)
	if !k.Down {
		Want(t, d, &e)
	}
}

// changeAndKill returns what was acknowledged last, of each post.
func changeAndKill(t *testing.T, place string) map[int64]acknowledged {
	t.Helper()
	process, out, why := servertest.Self(t, writerVariable+"="+place, patience)
	last, lines, killed := map[int64]acknowledged{}, map[int64]int{}, false
	for {
		line, err := out.ReadString('\n')
		if err != nil && killed { // it is dead, and all that it said has been read
			return last
		}
		var a acknowledged
		if err == nil {
			_, err = fmt.Sscan(line, &a.id, &a.version, (*string)(&a.action), &a.number)
		}
		if err != nil {
			t.Fatalf("it wrote %q: %v\n%s", line, err, why())
		}
		last[a.id] = a
		lines[a.id]++
		least := lines[1]
		for id := range int64(writers) {
			least = min(least, lines[id+1])
		}
		if least >= killAfter && !killed {
			killed = true
			process.Kill()
		}
	}
}
