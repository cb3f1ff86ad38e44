package feed

import (
	"context"
	"fmt"
	"time"

	"loadstone/block/dataset"
	"loadstone/block/text"
)

// state is what there is under an id.
type state struct {
	version, published int64
	title              string
	there, down        bool
}

// allows returns why the change of what there is may not take place, or nil.
func (s *state) allows(c *Change, e *Entry, only Condition) error {
	switch {
	case only.Absent && s.there, only.HasVersion && (!s.there || s.version != only.Version):
		return ErrChanged
	case !s.there && c.Action != Written:
		return ErrNotFound
	case s.down && c.Action != PutBack && c.Action != Erased:
		return ErrDown
	case s.there && !s.down && c.Action == PutBack:
		return ErrUp
	}
	return s.allowsEntry(e)
}

// allowsEntry refuses to move a post: cursors name places, and it would be missed, or seen twice.
func (s *state) allowsEntry(e *Entry) error {
	if s.there && e != nil && e.Published != s.published {
		return fmt.Errorf("%w: published of post %d is %d and does not change", ErrBounds, e.ID, s.published)
	}
	return nil
}

// check returns what is wrong with a change whatever there is, or nil.
func (c *Change) check(e *Entry) error {
	if err := text.Check("the editor's name", c.Editor, MaxEditor); err != nil {
		return fmt.Errorf("%w: %w", ErrBounds, err)
	}
	switch c.Action {
	case Written, CommentDown:
		if e == nil || e.ID != c.Post {
			return fmt.Errorf("%w: %s of post %d is without it", ErrBounds, c.Action, c.Post)
		}
		return nil
	case TakenDown, PutBack, Erased:
		if e == nil {
			return nil
		}
	case Edited: // is what Written becomes
	}
	return fmt.Errorf("%w: nobody may ask for the action %q of post %d", ErrBounds, string(c.Action), c.Post)
}

// Tx is a transaction of a database, in which a Desk does its work by DeskQueries and the queries of a
// Store.
type Tx struct {
	Rows
	// Posts are ids as queries take them.
	Posts func(ids ...int64) any
	// Put stores an entry that is not there, and its author.
	Put func(ctx context.Context, e *Entry) error
}

// do runs a query that returns nothing.
func (t Tx) do(ctx context.Context, query string, args ...any) error {
	return t.Rows(ctx, query, func(Scan) error { return nil }, args...)
}

// Apply is Desk's, in a transaction.
func (t Tx) Apply(ctx context.Context, c Change, e *Entry, only Condition) (Change, error) {
	if err := c.check(e); err != nil {
		return c, err
	}
	if e != nil { // a transaction may be done again: what was chosen then is not the caller's
		mine := *e
		e = &mine
	}
	var have state
	err := t.begin(ctx, &c, e, &have)
	if err == nil {
		err = have.allows(&c, e, only)
	}
	if err == nil && e != nil {
		e.Complete()
		err = e.Validate()
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrBounds, err)
		}
	}
	if err != nil {
		return c, err
	}
	if c.Title = have.title; e != nil {
		c.Title = e.Title
	}
	if have.there && c.Action == Written {
		c.Action = Edited
	}
	c.At = time.Now().UnixMilli()
	if err := t.turn(ctx, &c, e, only.Author); err != nil {
		return c, err
	}
	scan := func(row Scan) error { return row(&c.Number) }
	if err := t.Rows(ctx, "log", scan, c.At, c.Editor, string(c.Action), c.Post, c.Title); err != nil {
		return c, err
	}
	if err := t.do(ctx, "forget changes", c.Number-KeptChanges); err != nil {
		return c, err
	}
	return c, t.make(ctx, c, e)
}

// turn takes the log's turn, and sets the author of an entry to what is stored, if the change is not about that.
func (t Tx) turn(ctx context.Context, c *Change, e *Entry, seen *Author) error {
	if err := t.do(ctx, "lock", logTurn); err != nil || e == nil {
		return err
	}
	var stored Author
	err := t.Rows(ctx, "author", stored.scan, e.Author.ID)
	switch {
	case err != nil || stored.ID == 0: // somebody new
		return err
	case c.Action == CommentDown, seen != nil && e.Author == *seen:
		e.Author = stored
	case seen != nil && stored != *seen:
		return ErrChanged
	}
	return nil
}

// logTurn is what is locked, the last of all locks, before a change takes its number, so that numbers commit in their
// order. No post has that id.
const logTurn = int64(-1)

// make does what is in the log already.
func (t Tx) make(ctx context.Context, c Change, e *Entry) error {
	switch c.Action {
	case TakenDown:
		return t.takeDown(ctx, c)
	case PutBack:
		return t.putBack(ctx, c)
	case Erased:
		return t.all(ctx, c.Post, "drop media", "drop reactions", "drop comments", "drop post", "drop kept", "forget titles")
	default:
		if err := t.drop(ctx, c.Post); err != nil {
			return err
		}
		return t.store(ctx, e, c.Number)
	}
}

// begin chooses the ids that are missing, takes the post's turn and reads what there is.
func (t Tx) begin(ctx context.Context, c *Change, e *Entry, have *state) error {
	if e != nil && (e.ID == 0 || e.Author.ID == 0) {
		if err := t.choose(ctx, e); err != nil {
			return err
		}
		c.Post = e.ID
	}
	if err := t.do(ctx, "lock", c.Post); err != nil {
		return err
	}
	var err error
	*have, err = t.state(ctx, c.Post)
	return err
}

// state is what there is under an id.
func (r Rows) state(ctx context.Context, id int64) (s state, err error) {
	err = r(ctx, "state", func(row Scan) error {
		s.there = true
		return row(&s.version, &s.published, &s.title, &s.down)
	}, id)
	return s, err
}

// maxChosen bounds the ids that a Desk chooses.
const maxChosen = dataset.MaxID / 2

// choose sets the ids that are missing to the next after all that there are, but for those above
// maxChosen, which somebody chose in another way.
func (t Tx) choose(ctx context.Context, e *Entry) error {
	if err := t.do(ctx, "lock", int64(0)); err != nil { // taken before any post's, so that nobody waits in a circle
		return err
	}
	for query, id := range map[string]*int64{"next post": &e.ID, "next author": &e.Author.ID} {
		if *id == 0 {
			if err := t.Rows(ctx, query, func(row Scan) error { return row(id) }, int64(maxChosen)); err != nil {
				return err
			}
		}
	}
	return nil
}

// store puts an entry that is not there, at a version.
func (t Tx) store(ctx context.Context, e *Entry, version int64) error {
	if err := t.Put(ctx, e); err != nil {
		return err
	}
	return t.do(ctx, "stamp", e.ID, version)
}

// all runs queries of a post, one after the other.
func (t Tx) all(ctx context.Context, id int64, queries ...string) error {
	for _, query := range queries {
		if err := t.do(ctx, query, id); err != nil {
			return err
		}
	}
	return nil
}

// drop deletes the rows of a post that is not taken down.
func (t Tx) drop(ctx context.Context, id int64) error {
	return t.all(ctx, id, "drop media", "drop reactions", "drop comments", "drop post")
}

func (t Tx) takeDown(ctx context.Context, c Change) error {
	e, err := t.whole(ctx, c.Post)
	if err != nil {
		return err
	}
	line, err := e.Line()
	if err != nil {
		return fmt.Errorf("keep post %d: %w", c.Post, err)
	}
	if err := t.do(ctx, "keep", c.Post, c.Number, e.Published, e.Title, c.Editor, c.At, string(line)); err != nil {
		return err
	}
	return t.drop(ctx, c.Post)
}

func (t Tx) putBack(ctx context.Context, c Change) error {
	e, err := t.kept(ctx, c.Post)
	if err != nil {
		return err
	}
	// Its author may have another name or role meanwhile.
	err = t.Rows(ctx, "author", func(row Scan) error { return e.Author.scan(row) }, e.Author.ID)
	if err != nil {
		return err
	}
	if err := t.do(ctx, "drop kept", c.Post); err != nil {
		return err
	}
	return t.store(ctx, &e, c.Number)
}

func (a *Author) scan(row Scan) error {
	return row(&a.ID, &a.Name, &a.Role, &a.Team, &a.About, &a.Photo)
}
