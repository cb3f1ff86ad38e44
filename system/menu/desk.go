package menu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"loadstone/block/dataset"
	"loadstone/block/text"
)

// Bounds of what a Desk keeps.
const (
	// KeptRevisions is how many versions of a menu are kept, the newest included.
	KeptRevisions = 50
	// KeptChanges is how long a change stays in the log: a season's complaints.
	KeptChanges = 90 * 24 * time.Hour
	// MaxDocumentBytes bounds the body of a Document: a menu, and what is said about it.
	MaxDocumentBytes = MaxBodyBytes + 4<<10
	// MaxEditor bounds the name of an editor, in bytes.
	MaxEditor = 64
	// MaxListed bounds what is asked for at a time.
	MaxListed = 1000
)

// Desk is a Database with what those need who edit menus: what menus were before, who
// changed them, and documents that are nobody else's business yet.
//
// A revision and an entry in the log come with the write, or not at all, also if the
// process is killed. So does an entry with a document of the kind Availability that is set or
// removed. A filling leaves neither. What cannot be asked for or stored, such as
// a limit beyond MaxListed or an editor without a name, is an error that wraps ErrBounds.
type Desk interface {
	Database

	// Revisions are a menu's versions, newest first: at most limit of them, those below
	// before if it is not 0. There are none of an id that never had a menu. What a filling
	// brought, or a program before there were editors, has neither time nor editor.
	Revisions(ctx context.Context, id, before int64, limit int) ([]Revision, error)
	// Changes are those of all menus after a cursor ("" for the oldest that is kept), in
	// the order of their cursors, at most limit. Those of one menu are in the order of
	// their versions, and those of its availability in theirs. A change appears within FeedDelay of the write's end; what
	// appears later has a higher cursor, so that who goes on from the last one misses none.
	// It goes on from the oldest that is kept after a cursor that is older than that.
	Changes(ctx context.Context, after Cursor, limit int) ([]Change, error)
	// LastChanges are those before a cursor ("" for the end), newest first, at most limit.
	LastChanges(ctx context.Context, before Cursor, limit int) ([]Change, error)

	// Document returns a document; the error wraps ErrNotFound if there is none.
	Document(ctx context.Context, kind Kind, id int64) (Document, error)
	// SetDocument stores a document in place of what is there, or removes it if Body is nil. It
	// sets At, and Tag. If only does not hold, nothing is changed and the error wraps ErrChanged;
	// to remove nothing is no error. It takes turns with others at the same document.
	SetDocument(ctx context.Context, d *Document, only Condition) error
	// Documents are those of a kind, in ascending order of id, at most limit of them with
	// ids above after.
	Documents(ctx context.Context, kind Kind, after int64, limit int) ([]Document, error)
}

// CheckListed returns what is wrong with the limit of a list, or nil.
func CheckListed(limit int) error {
	if limit < 1 || limit > MaxListed {
		return fmt.Errorf("%w: the limit is %d: write 1 to %d", ErrBounds, limit, MaxListed)
	}
	return nil
}

// FeedDelay bounds how long after a write its change may stay out of Changes, while the
// store answers: a store that orders changes by clocks waits for writes under way.
const FeedDelay = 15 * time.Second

// End is the cursor of a desk's last change, "" if there is none: what comes after it is new.
func End(ctx context.Context, desk Desk) (Cursor, error) {
	last, err := desk.LastChanges(ctx, "", 1)
	if err != nil || len(last) == 0 {
		return "", err
	}
	return last[0].Cursor, nil
}

// Revision is what a menu was from one change to the next.
type Revision struct {
	Change
	// Body is the menu's JSON, nil in a version in which there is none.
	Body []byte
}

// Cursor is a place in the log of one store, for that store to read. Cursors of one store
// are in the order of their bytes.
type Cursor string

// NumberCursor is the cursor of a store that counts changes.
func NumberCursor(number int64) Cursor { return Cursor(fmt.Sprintf("%016x", uint64(number))) }

// Number is the inverse of NumberCursor, and none of an empty cursor.
func (c Cursor) Number(none int64) (int64, error) {
	if c == "" {
		return none, nil
	}
	number, err := strconv.ParseUint(string(c), 16, 63)
	if err != nil || NumberCursor(int64(number)) != c {
		return 0, c.Unreadable()
	}
	return int64(number), nil
}

// Unreadable is the error of a cursor that no store of this kind gave.
func (c Cursor) Unreadable() error {
	return fmt.Errorf("%w: the cursor is %.40q: write one that this store gave, or none", ErrBounds, string(c))
}

// Change says who changed a menu, and when.
type Change struct {
	// Cursor is empty in a Revision.
	Cursor Cursor
	ID     int64
	// Version is what the change made, 0 of Availability.
	Version int64
	// At is by the clock of the store or its client, to the millisecond; zero of what a
	// filling brought.
	At time.Time
	// Editor is who wrote, see WithEditor; empty of what a filling brought.
	Editor string
	// Deleted: the change took the menu away, or all that was said of its availability.
	Deleted bool
	// Availability: it was not the menu that changed but what of it is served, see Overlay.
	Availability bool
}

// Kind says what a Document is for.
type Kind string

// All kinds.
const (
	// Drafts are menus that wait for being published, by id.
	Drafts Kind = "draft"
	// Availability is what of a menu is sold out or served at some hours, by id.
	Availability Kind = "availability"
	// Deliveries are where the senders of webhooks are in the log.
	Deliveries Kind = "delivery"
)

// Check returns what is wrong with the name of a kind, or nil: other kinds may come.
func (k Kind) Check() error {
	const most = 32
	wrong := k == "" || len(k) > most
	for i := range len(k) {
		wrong = wrong || k[i] < 'a' || k[i] > 'z'
	}
	if wrong {
		return fmt.Errorf("%w: the kind of documents is %.40q: write 1 to %d letters from a to z", ErrBounds, string(k), most)
	}
	return nil
}

// Document is a small text beside the menus, one per kind and id.
type Document struct {
	Kind Kind
	// ID is from 1 to dataset.MaxID.
	ID int64
	// Tag is that of Body.
	Tag uint64
	// Editor is who wrote it, up to MaxEditor bytes.
	Editor string
	// At is when, by the clock of the store or its client, to the millisecond.
	At time.Time
	// Body is 1 to MaxDocumentBytes of UTF-8, without NUL; nil to remove a document.
	Body []byte
}

// Check returns every problem of a document that is to be stored, joined, or nil.
func (d *Document) Check() error {
	problems := []error{d.Kind.Check(), CheckEditor(d.Editor)}
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: "+format, append([]any{ErrBounds}, args...)...))
	}
	if d.ID < 1 || d.ID > dataset.MaxID {
		bad("the id of the document is %d: write 1 to 18 digits, not 0", d.ID)
	}
	if len(d.Body) > MaxDocumentBytes || (d.Body != nil && len(d.Body) == 0) {
		bad("the document has %d bytes: write 1 to %d", len(d.Body), MaxDocumentBytes)
	}
	if !utf8.Valid(d.Body) || bytes.IndexByte(d.Body, 0) >= 0 {
		bad("the document is not UTF-8, or has a NUL: write it as UTF-8 without")
	}
	return errors.Join(problems...)
}

type editorKey struct{}

// WithEditor returns a context in which writes are by the editor, who is logged: up to
// MaxEditor bytes, such as an account's name.
func WithEditor(ctx context.Context, editor string) context.Context {
	return context.WithValue(ctx, editorKey{}, editor)
}

// EditorAPI is who wrote where nobody said more: a program with the token.
const EditorAPI = "api"

// Editor is the one whom WithEditor set, or EditorAPI.
func Editor(ctx context.Context) string {
	if editor, ok := ctx.Value(editorKey{}).(string); ok {
		return editor
	}
	return EditorAPI
}

// CheckEditor returns what is wrong with the name of an editor, or nil.
func CheckEditor(editor string) error {
	if err := text.Check("the editor's name", editor, MaxEditor); err != nil {
		return fmt.Errorf("%w: %w", ErrBounds, err)
	}
	return nil
}
