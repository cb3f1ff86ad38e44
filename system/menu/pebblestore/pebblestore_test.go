package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"loadstone/block/dataset"
	"loadstone/block/lsm"
	"loadstone/block/lsm/lsmtest"
	"loadstone/system/menu"
	"loadstone/system/menu/menutest"
)

func TestMain(m *testing.M) {
	if menutest.IsWriter() {
		os.Exit(menutest.Writer(openPath))
	}
	if menutest.IsFiller() {
		os.Exit(menutest.FillUntilKilled(placeAt, fillers))
	}
	if dir := os.Getenv(fullDir); dir != "" {
		fmt.Println(fillFull(dir))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// TestTheCacheFitsTheMemoryLimit is not parallel: the limit is the process's.
func TestTheCacheFitsTheMemoryLimit(t *testing.T) {
	before := DefaultConfig().CacheBytes
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	if got := DefaultConfig().CacheBytes; before != 256<<20 || got != 16<<20 {
		t.Errorf("got %d bytes without a limit and %d with 64 MiB, want 256 and 16 MiB", before, got)
	}
}

// config is that of a small store.
func config(dir string) Config {
	cfg := DefaultConfig()
	cfg.Dir, cfg.CacheBytes, cfg.Registerer = dir, 1<<20, prometheus.NewRegistry()
	return cfg
}

func openPath(path string) (menu.Database, error) {
	return Open(context.Background(), config(path))
}

// openSmall opens a store that is filled in small chunks.
func openSmall(ctx context.Context, dir string) (*Store, error) {
	s, err := Open(ctx, config(dir))
	if err == nil {
		s.chunk = 100
	}
	return s, err
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := openSmall(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var databases = menutest.Databases{Place: func(t *testing.T) menutest.Open {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "menus")
	return func() (menu.Database, error) { return openPath(dir) }
}}

func TestIsADatabase(t *testing.T) {
	t.Parallel()
	menutest.Database(t, databases)
}

func TestIsADesk(t *testing.T) {
	t.Parallel()
	menutest.Desk(t, databases)
}

var fillers = menutest.Fillers{Menus: 800, Resumes: true, Place: func(t *testing.T) menutest.Filled {
	t.Helper()
	return placeAt(filepath.Join(t.TempDir(), "menus"))
}}

func placeAt(dir string) menutest.Filled {
	return menutest.Of(func(ctx context.Context) (*Store, error) { return openSmall(ctx, dir) })
}

func TestIsAFiller(t *testing.T) {
	t.Parallel()
	menutest.Filler(t, fillers)
}

func TestAKilledFillingGoesOn(t *testing.T) {
	t.Parallel()
	menutest.KillFilling(t, filepath.Join(t.TempDir(), "menus"), placeAt, fillers)
}

func TestKilledItLosesNothing(t *testing.T) {
	t.Parallel()
	menutest.Kill(t, filepath.Join(t.TempDir(), "menus"), openPath)
}

func TestASecondProcessIsToldOfTheFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	defer func() { _ = s.Close() }()
	if _, err := openSmall(t.Context(), dir); !errors.Is(err, lsm.ErrInUse) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want that it is in use", err)
	}
}

func TestWhatIsNoStoreOfMenusIsNotTaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key, value string
		want       error
	}{
		"another database": {"x", "y", menu.ErrOccupied},
		"another version":  {string(stateKey), `{"format":4}`, menu.ErrVersion},
		"a damaged state":  {string(stateKey), `{"format":3`, menu.ErrCorrupt},
	} {
		dir := t.TempDir()
		db, err := lsm.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatNewest})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Set([]byte(c.key), []byte(c.value), pebble.Sync), db.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := openSmall(t.Context(), dir); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	if _, err := Open(t.Context(), Config{}); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("an empty configuration: got %v, want three problems", err)
	}
}

func TestADamagedEntryIsAnError(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	defer func() { _ = s.Close() }()
	for id, value := range []string{1: "", 2: "\x01", 3: "\x03\x01", 4: "\x02\x01x", 5: "\x01\x0112345678", 6: "\x01\x00123456789", 7: "\x05\x01\x01\x00123456789", 8: "\x05\x01\x01\x09a", 9: "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if err := s.db.Set(appendKey(nil, menuKind, int64(id)), []byte(value), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Lookup(t.Context(), int64(id)); id > 0 && !errors.Is(err, menu.ErrCorrupt) {
			t.Errorf("%q: got %v, want that it is damaged", value, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, e := range []entry{
		{version: 300, exists: true, tag: 7, body: []byte("{}")},
		{version: 1},
		{version: 3, at: 1790000000000, editor: []byte("ሰላም"), exists: true, tag: 7, body: []byte("{}")},
	} {
		f.Add(e.append(nil))
		f.Add(appendChange(nil, 9, &e))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if e, err := decode(value); err == nil {
			if again, err := decode(e.append(nil)); err != nil || !reflect.DeepEqual(again, e) {
				t.Errorf("%q: got %+v and %v, want %+v", value, again, err, e)
			}
		}
		if id, e, err := decodeChange(value); err == nil {
			if same, again, err := decodeChange(appendChange(nil, id, &e)); err != nil || same != id || !reflect.DeepEqual(again, e) {
				t.Errorf("%q: got %d, %+v and %v, want %d, %+v", value, same, again, err, id, e)
			}
		}
	})
}

// A table of changes lies over the others; its filter says which menus it does not have.
func TestFewReadTheTableOfChanges(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	defer func() { _ = s.Close() }()
	const count = 1000
	even := menutest.Source{Of: dataset.Meta{Origin: "even", Fingerprint: "even", Count: count}, Menus: func(_ context.Context, yield func(menu.Menu, error) bool) {
		for i := range int64(count) {
			if !yield(menutest.Example(2+2*i, i), nil) {
				return
			}
		}
	}}
	if _, err := s.Fill(t.Context(), even, nil); err != nil {
		t.Fatal(err)
	}
	for _, id := range []int64{2, 2 * count} {
		m := menutest.Example(id, 77)
		if _, _, err := s.Replace(t.Context(), &m, menu.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	for i := range int64(count - 2) {
		m := menutest.Example(4+2*i, 1+i)
		menutest.Want(t, s, &m, 1)
	}
	if hits := s.db.Metrics().Filter.Hits; hits < count*9/10 {
		t.Errorf("%d of %d look-ups were answered by the filter", hits, count)
	}
}

// While the disk is full writes are refused, with the reason, and what is there is read.
func TestAFullDiskIsSaidAndPasses(t *testing.T) {
	t.Parallel()
	disk := &lsmtest.Disk{FS: vfs.Default}
	s, err := openOn(t.Context(), disk, config(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	replace := func(ctx context.Context, step int64) error {
		m := menutest.Example(1, step)
		_, _, err := s.Replace(ctx, &m, menu.Condition{})
		return err
	}
	if err := replace(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	disk.Full.Store(true)
	for who, err := range map[string]error{
		"who finds it out": findFull(t, s, func(ctx context.Context, _ *Store) error { return replace(ctx, 2) }),
		"the next":         replace(t.Context(), 2),
	} {
		if !errors.Is(err, menu.ErrUnavailable) || !errors.Is(err, lsm.ErrFull) {
			t.Errorf("%s got %v, want that the disk is full", who, err)
		}
	}
	first := menutest.Example(1, 1) // pebble itself would show the second, which may never be stored
	menutest.Want(t, s, &first, 1)
	disk.Full.Store(false)
	for deadline := time.Now().Add(time.Minute); replace(t.Context(), 3) != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is room, and nothing is stored")
		}
	}
	last := menutest.Example(1, 3) // and before it the one without an answer
	menutest.Want(t, s, &last, 3)
}

// findFull makes a change that waits for room, and gives it up then.
func findFull(t *testing.T, s *Store, change func(context.Context, *Store) error) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- change(ctx, s) }()
	for deadline := time.Now().Add(time.Minute); !s.db.Full(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for room")
		}
	}
	cancel()
	return <-done
}

// Who fills a store is told that there is no room, and does not wait for it. Pebble stops then, so
// it is another process that fills.
func TestAFillingDoesNotWaitForRoom(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), fullDir+"="+t.TempDir())
	if said, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(said), lsm.ErrFull.Error()) {
		t.Errorf("got %v and %s, want that the disk is full", err, said)
	}
}

// fullDir is the variable that makes the test binary fill a store where there is no room.
const fullDir = "PEBBLESTORE_FULL_DIR"

func fillFull(dir string) error {
	disk := &lsmtest.Disk{FS: vfs.Default}
	s, err := openOn(context.Background(), disk, config(dir))
	if err != nil {
		return err
	}
	source, err := menu.NewGenerator(1, 300)
	if err != nil {
		return err
	}
	disk.Full.Store(true)
	_, err = s.Fill(context.Background(), source, nil)
	return err
}

// What could be gone after a crash is not shown: pebble itself would.
func TestWhatIsNotSyncedIsNotSeen(t *testing.T) {
	t.Parallel()
	draft := func(id int64, body []byte) func(context.Context, *Store) error {
		return func(ctx context.Context, s *Store) error {
			return s.SetDocument(ctx, &menu.Document{Kind: menu.Drafts, ID: id, Editor: "ada", Body: body}, menu.Condition{})
		}
	}
	replace := func(ctx context.Context, s *Store) error {
		m := menutest.Example(1, time.Now().UnixNano()%1000*5)
		_, _, err := s.Replace(ctx, &m, menu.Condition{})
		return err
	}
	for name, change := range map[string]func(context.Context, *Store) error{
		"a menu": replace, "a new document": draft(2, []byte("new")), "a document": draft(1, []byte("other")), "a document that goes": draft(1, nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := &lsmtest.Disk{FS: vfs.Default}
			s, err := openOn(t.Context(), disk, config(t.TempDir()))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			for _, first := range []func(context.Context, *Store) error{replace, replace, draft(1, []byte("old")), draft(3, []byte("third"))} {
				if err := first(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			seen := func() string {
				page, lookup := s.Lookup(t.Context(), 1)
				revisions, errRevisions := s.Revisions(t.Context(), 1, 0, 9)
				changes, errChanges := s.Changes(t.Context(), "", 9)
				last, errLast := s.LastChanges(t.Context(), "", 9)
				first, document := s.Document(t.Context(), menu.Drafts, 1)
				_, none := s.Document(t.Context(), menu.Drafts, 2)
				documents, errDocuments := s.Documents(t.Context(), menu.Drafts, 0, 9)
				return fmt.Sprint(page, lookup, revisions, errRevisions, changes, errChanges, last, errLast, first, document, none, documents, errDocuments)
			}
			before := seen()
			disk.Full.Store(true)
			if err := findFull(t, s, change); !errors.Is(err, lsm.ErrFull) {
				t.Fatalf("got %v, want that the disk is full", err)
			}
			if now := seen(); now != before {
				t.Errorf("got\n%s, want\n%s", now, before)
			}
			disk.Full.Store(false)
			for deadline := time.Now().Add(time.Minute); seen() == before && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			}
			if seen() == before {
				t.Error("there is room, and nothing is stored")
			}
		})
	}
}

// What is acknowledged is on the disk: each write syncs the log.
func TestEachWriteSyncs(t *testing.T) {
	t.Parallel()
	disk := &lsmtest.Disk{FS: vfs.Default}
	s, err := openOn(t.Context(), disk, config(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for step := range int64(3) {
		before, m := disk.Syncs.Load(), menutest.Example(1, step)
		if _, _, err := s.Replace(t.Context(), &m, menu.Condition{}); err != nil || disk.Syncs.Load() == before {
			t.Errorf("got %v after %d syncs", err, disk.Syncs.Load()-before)
		}
	}
}

// A menu that came twice is noticed within a chunk, and over chunks.
func TestNoMenuComesTwice(t *testing.T) {
	t.Parallel()
	for _, count := range []int64{3, 150} {
		dir := t.TempDir()
		s := open(t, dir)
		twice := menutest.Source{Of: dataset.Meta{Origin: "twice", Fingerprint: "twice", Count: count}, Menus: func(_ context.Context, yield func(menu.Menu, error) bool) {
			for i := range count {
				if !yield(menutest.Example(1+i%(count-1), i), nil) {
					return
				}
			}
		}}
		if _, err := s.Fill(t.Context(), twice, nil); !errors.Is(err, menu.ErrInput) {
			t.Errorf("%d menus: got %v, want that an id came twice", count, err)
		}
		if _, err := s.Lookup(t.Context(), 1); !errors.Is(err, menu.ErrMissing) {
			t.Errorf("got %v, want ErrMissing", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(dir, tablesDir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("tables were left behind: %v", err)
		}
	}
}

// Menus are validated before they come here; an id that is none must do no harm anyway.
func TestImpossibleIDsAreNotWritten(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	defer func() { _ = s.Close() }()
	for _, id := range []int64{0, -1, dataset.MaxID + 1} {
		m := menutest.Example(id, 1)
		if _, _, err := s.Replace(t.Context(), &m, menu.Condition{}); !errors.Is(err, menu.ErrInput) {
			t.Errorf("replace %d: got %v", id, err)
		}
		if _, err := s.Create(t.Context(), &m); id != 0 && !errors.Is(err, menu.ErrInput) {
			t.Errorf("create %d: got %v", id, err)
		}
		if _, err := s.Delete(t.Context(), id, menu.Condition{}); !errors.Is(err, menu.ErrNotFound) {
			t.Errorf("delete %d: got %v", id, err)
		}
	}
}

// A store of the format before, as it is with a menu that was replaced, one that was deleted
// and one that was filled in: the next write goes on from there.
func TestTheFormatBeforeIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := lsm.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		t.Fatal(err)
	}
	old := func(value []byte, m menu.Menu) []byte {
		body := m.AppendJSON(nil)
		return append(binary.LittleEndian.AppendUint64(value, menu.Tag(body)), body...)
	}
	first, third := menutest.Example(1, 1), menutest.Example(3, 3)
	if err := errors.Join(
		db.Set(stateKey, []byte(`{"format":1,"phase":"filled","meta":{"origin":"a list","fingerprint":"a list","count":3},"count":2,"writes":2,"next":4,"store":"X"}`), pebble.Sync),
		db.Set([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x01"), old([]byte{1, 2}, first), pebble.Sync),
		db.Set([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x02"), []byte{2, 2}, pebble.Sync),
		db.Set([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x03"), old([]byte{1, 1}, third), pebble.Sync),
		db.Close(),
	); err != nil {
		t.Fatal(err)
	}
	for round := range int64(2) { // the second reads what the first has written
		s := open(t, dir)
		menutest.Want(t, s, &third, 1)
		if page, err := s.Lookup(t.Context(), 2); !errors.Is(err, menu.ErrNotFound) || page.Version != 2 {
			t.Errorf("what was deleted: got version %d and %v", page.Version, err)
		}
		if changes, err := s.Changes(t.Context(), "", 9); err != nil || int64(len(changes)) != round {
			t.Errorf("got %+v and %v, want %d changes", changes, err, round)
		}
		if round == 0 {
			menutest.Want(t, s, &first, 2)
			if _, err := s.Delete(t.Context(), 1, menu.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.Revisions(t.Context(), 1, 0, 9)
		if err != nil || len(got) != 2 || !got[0].Deleted || got[0].Editor != menu.EditorAPI || got[1].Version != 2 || got[1].Editor != "" || !got[1].At.IsZero() {
			t.Errorf("got %+v and %v, want the deletion and the menu before", got, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The log loses what is too old, a few entries with each write, and a cursor before them goes on
// from the oldest that is left.
func TestTheLogLosesWhatIsOld(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	defer func() { _ = s.Close() }()
	var late time.Duration
	s.now = func() time.Time { return time.Now().Add(late) } // asked by those who commit, one after the other
	write := func(n int) {
		for range n {
			m := menutest.Example(1, 1)
			if _, _, err := s.Replace(t.Context(), &m, menu.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(10)
	first, err := s.Changes(t.Context(), "", 1)
	if err != nil {
		t.Fatal(err)
	}
	late = menu.KeptChanges - time.Hour
	write(2)
	if got, err := s.Changes(t.Context(), "", 99); err != nil || len(got) != 12 {
		t.Errorf("got %d changes and %v, want all 12", len(got), err)
	}
	late = menu.KeptChanges + time.Hour
	write(2)
	if got, err := s.Changes(t.Context(), first[0].Cursor, 99); err != nil || len(got) != 14-2*forgets || got[0].Version != 2*forgets+1 {
		t.Errorf("got %d changes and %v, want those from version %d on", len(got), err, 2*forgets+1)
	}
	write(10)
	for _, list := range []func(context.Context, menu.Cursor, int) ([]menu.Change, error){s.Changes, s.LastChanges} {
		if got, err := list(t.Context(), "", 99); err != nil || len(got) != 14 {
			t.Errorf("got %d changes and %v, want the 14 that are not old", len(got), err)
		}
	}
	all := 0
	if err := each(t.Context(), s.db, span{[]byte{changeKind}, []byte{changeKind + 1}, forwards}, func([]byte, []byte) (bool, error) {
		all++
		return true, nil
	}); err != nil || all != 14 {
		t.Errorf("there are %d entries and %v, want 14", all, err)
	}
	revisions := 0
	write(menu.KeptRevisions)
	if err := each(t.Context(), s.db, span{[]byte{revisionKind}, []byte{revisionKind + 1}, forwards}, func([]byte, []byte) (bool, error) {
		revisions++
		return true, nil
	}); err != nil || revisions != menu.KeptRevisions-1 {
		t.Errorf("there are %d versions beside the newest and %v, want %d", revisions, err, menu.KeptRevisions-1)
	}
}
