package menutest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/menu"
)

// writerVariable makes a test binary the process that is killed, see Kill: it holds the
// path of the store.
const writerVariable = "MENUTEST_WRITER"

// The writers of the process that is killed, each with a menu of its own, and how many
// acknowledgements the test reads, of all of them, before it kills.
const (
	writers   = 8
	killAfter = 300
)

// IsWriter reports whether this process was started by Kill. TestMain asks, and gives
// Writer's result to os.Exit.
func IsWriter() bool { return os.Getenv(writerVariable) != "" } //nolint:forbidigo // only tests call this

// Writer writes menus and prints each version that was acknowledged, until it is killed.
// It returns the status of a process that could not.
func Writer(open func(path string) (menu.Database, error)) int {
	db, err := open(os.Getenv(writerVariable)) //nolint:forbidigo // only tests call this
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var all sync.WaitGroup
	for w := range int64(writers) {
		all.Go(func() {
			for n := int64(0); ; n++ {
				if err := write(db, 1+w, n); err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
			}
		})
	}
	all.Wait()
	return 1
}

// write writes the menu once, deletes it at every fifth time, and prints what was
// acknowledged: its id, its version, and the step of the menu or -1. It is one write of
// one line: what the reader sees whole was acknowledged.
func write(db menu.Database, id, n int64) error {
	ctx := menu.WithEditor(context.Background(), killed) // the life of a process that is killed
	if n%5 == 4 {
		version, err := db.Delete(ctx, id, menu.Condition{})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(os.Stdout, "%d %d -1\n", id, version)
		return err
	}
	m := Example(id, n)
	page, _, err := db.Replace(ctx, &m, menu.Condition{})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(os.Stdout, "%d %d %d\n", id, page.Version, n)
	return err
}

// killed is the editor who is killed.
const killed = "writer who is killed"

// acknowledged is a word on a menu.
type acknowledged struct{ id, version, step int64 }

// Kill kills a process that writes into the store at path with SIGKILL, twice, and looks
// after each for everything that it said was stored, and in a menu.Desk for its traces.
func Kill(t *testing.T, path string, open func(path string) (menu.Database, error)) {
	t.Helper()
	for range 2 { // the second begins with what the first left behind
		all := writeAndKill(t, path)
		db, err := open(path)
		if err != nil {
			t.Fatal(err)
		}
		last := map[int64]acknowledged{}
		for _, a := range all {
			last[a.id] = a
		}
		for _, a := range last {
			a.check(t, db)
		}
		if desk, ok := db.(menu.Desk); ok {
			traces(t, desk, all)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// check looks for what was acknowledged. The write after it may have taken place as well.
func (a acknowledged) check(t *testing.T, db menu.Database) {
	t.Helper()
	page, err := db.Lookup(t.Context(), a.id) // once: the write after it may take place even now
	switch {
	case page.Version == a.version+1:
	case a.step < 0:
		if !errors.Is(err, menu.ErrNotFound) || page.Version != a.version || page.Body != nil {
			t.Errorf("menu %d, deleted as version %d: got version %d, %.40q and %v", a.id, a.version, page.Version, page.Body, err)
		}
	case err != nil:
		t.Errorf("menu %d of version %d was acknowledged: got version %d and %v", a.id, a.version, page.Version, err)
	default:
		m := Example(a.id, a.step)
		wantPage(t, page, &m, a.version)
	}
}

// traces checks that each version of a menu has its entry in the log, once and in order, and that
// there are no others; and that what was acknowledged has its revision, if it still is kept.
func traces(t *testing.T, desk menu.Desk, all []acknowledged) {
	t.Helper()
	versions, changes := settled(t, desk)
	logged := map[[2]int64]menu.Change{}
	next := map[int64]int64{}
	for _, c := range changes {
		if next[c.ID]++; c.Version != next[c.ID] {
			t.Errorf("the log has version %d of menu %d, want %d", c.Version, c.ID, next[c.ID])
		}
		logged[[2]int64{c.ID, c.Version}] = c
	}
	for _, a := range all {
		want := menu.Change{ID: a.id, Version: a.version, Editor: killed, Deleted: a.step < 0}
		wantChange(t, logged[[2]int64{a.id, a.version}], want)
		if a.version <= versions[a.id]-menu.KeptRevisions {
			continue
		}
		var body []byte
		if m := Example(a.id, a.step); a.step >= 0 {
			body = m.AppendJSON(nil)
		}
		revision, err := desk.Revisions(t.Context(), a.id, a.version+1, 1)
		if err != nil || len(revision) != 1 || string(revision[0].Body) != string(body) {
			t.Errorf("version %d of menu %d: got the revisions %+v and %v, want %s", a.version, a.id, revision, err, body)
			continue
		}
		wantChange(t, revision[0].Change, want)
	}
}

// settled returns the version of each menu, and as many changes. A database may still be carrying out what
// the process had asked for last.
func settled(t *testing.T, desk menu.Desk) (versions map[int64]int64, changes []menu.Change) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		versions = map[int64]int64{}
		sum := int64(0)
		for id := range int64(writers) {
			page, err := desk.Lookup(t.Context(), 1+id)
			if err != nil && !errors.Is(err, menu.ErrNotFound) {
				t.Fatal(err)
			}
			versions[1+id] = page.Version
			sum += page.Version
		}
		changes = logOf(t, desk)
		if int64(len(changes)) == sum {
			return versions, changes
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %d changes of %d versions", len(changes), sum)
		}
	}
}

// logOf is what is in the log now.
func logOf(t *testing.T, desk menu.Desk) (all []menu.Change) {
	t.Helper()
	const most = 100
	for after := menu.Cursor(""); ; {
		part := changesAfter(t, desk, &after, most)
		if len(part) == 0 {
			return all
		}
		all = append(all, part...)
	}
}

// writeAndKill returns all that was acknowledged, of each menu in order.
func writeAndKill(t *testing.T, path string) (all []acknowledged) {
	t.Helper()
	process, out, why := servertest.Self(t, writerVariable+"="+path, killLimit)
	menus, killed := map[int64]bool{}, false
	for {
		line, err := out.ReadString('\n')
		if err != nil && !killed {
			t.Fatalf("it wrote no more: %v\n%s", err, why())
		}
		if err != nil { // it is dead, and all that it said has been read
			return all
		}
		var a acknowledged
		if _, err := fmt.Sscan(line, &a.id, &a.version, &a.step); err != nil {
			t.Fatalf("it wrote %q: %v", line, err)
		}
		all, menus[a.id] = append(all, a), true
		if len(all) > killAfter && len(menus) == writers && !killed {
			killed = true
			process.Kill()
		}
	}
}

// fillerVariable is writerVariable's sister for KillFilling.
const fillerVariable = "MENUTEST_FILLER"

// KilledSeed is that of the data set whose filling is killed.
const KilledSeed = 9

// IsFiller reports whether this process was started by KillFilling. TestMain asks, and
// gives FillUntilKilled's result to os.Exit.
func IsFiller() bool { return FillerPlace() != "" }

// FillerPlace is the path that KillFilling was given, in the process that it started.
func FillerPlace() string { return os.Getenv(fillerVariable) } //nolint:forbidigo // only tests call this

// FillUntilKilled fills three quarters of a store, says so, and waits. Of fillers, Place is
// not used.
func FillUntilKilled(place func(path string) Filled, fillers Fillers) int {
	whole, err := menu.NewGenerator(KilledSeed, fillers.Menus)
	if err == nil {
		progressed, tell := progress(fillers.Resumes)
		stop := func() {
			if _, err := os.Stdout.WriteString("ready\n"); err == nil {
				select {}
			}
		}
		ctx := context.Background() // the life of a process that is killed
		at := place(FillerPlace())
		_, err = at.Fill(ctx, cut(whole, fillers.Menus*3/4, progressed, stop), tell)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// KillFilling kills a process that fills the store at path with SIGKILL, twice, and fills
// it then: it holds what an undisturbed one does.
func KillFilling(t *testing.T, path string, place func(path string) Filled, fillers Fillers) {
	t.Helper()
	for range 2 {
		process, out, why := servertest.Self(t, fillerVariable+"="+path, killLimit)
		if line, err := out.ReadString('\n'); err != nil || line != "ready\n" {
			t.Fatalf("it said %q: %v\n%s", line, err, why())
		}
		process.Kill()
		wantMissing(t, place(path))
	}
	source := Generator(t, KilledSeed, fillers.Menus)
	filled := mustFill(t, place(path), source)
	if filled.Kept || (filled.Resumed > 0) != fillers.Resumes || filled.Resumed >= fillers.Menus {
		t.Errorf("got %+v of %d, want resumed %v", filled, fillers.Menus, fillers.Resumes)
	}
	wantHolds(t, place(path), source)
}
