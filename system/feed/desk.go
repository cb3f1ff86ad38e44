package feed

import (
	"context"
	"fmt"
	"math"
	"time"

	"loadstone/block/dataset"
	"loadstone/block/text"
)

// Bounds of what a Desk keeps.
const (
	// KeptChanges is how many changes are in the log, the newest.
	KeptChanges = 100_000
	// MaxEditor bounds the name of an editor, in bytes.
	MaxEditor = 64
)

// maxChosen bounds the ids that a Desk chooses.
const maxChosen = dataset.MaxID / 2

// EditorAPI is who wrote where no person did: a program.
const EditorAPI = "api"

// Desk is a Store with what those need who edit posts.
//
// Each change is a transaction with its entry in the log: it takes place whole or not at all,
// also if the process is killed. Those of one post take turns. A post that is taken down is out
// of everything that a Store reads, and keeps its place in the list for when it is put back.
type Desk interface {
	Store

	// Apply makes a change, as its Action says, to the post with its ID, and returns it as it is in
	// the log; Number, At and Title are set here. E is the post as it is to be if the action is
	// Written or CommentDown, else nil. An ID or an author's ID of 0 is for a new one. Published
	// does not change.
	//
	// If only does not hold, nothing is changed and the error wraps ErrChanged. It wraps ErrDown
	// for what is taken down and would have to be put back first, ErrUp for putting back what is
	// not taken down, ErrNotFound where there is no post to change, and ErrBounds for what cannot
	// be stored.
	Apply(ctx context.Context, c Change, e *Entry, only Condition) (Change, error)
	// Entry returns a post with everything about it, also one that was taken down. The error wraps
	// ErrNotFound if there is none.
	Entry(ctx context.Context, id int64) (Kept, error)
	// Down are the posts that are taken down, each with the change that did it, the latest first: at most limit of
	// them, below the number before if that is not 0.
	Down(ctx context.Context, before int64, limit int) ([]Change, error)
	// Changes are the log of a post, or of all if that is 0, in the order of Down.
	Changes(ctx context.Context, post, before int64, limit int) ([]Change, error)
	// Since are at most limit entries of the log whose numbers are above one, in ascending order. Numbers are taken in
	// the order in which changes take place: who has read up to one misses none below it.
	Since(ctx context.Context, number int64, limit int) ([]Change, error)
	// Authors are at most limit of those with the name, or of all if that is empty, in the order of names.
	Authors(ctx context.Context, name string, limit int) ([]Author, error)
	// Each hands every post that is not taken down to use, in ascending order of id, as they were at one time.
	Each(ctx context.Context, progress dataset.Progress, use func(e *Entry) error) error
}

// Action is what was done to a post.
type Action string

// All actions.
const (
	// Written: the post is new.
	Written Action = "written"
	// Edited: it was there. What is Written is Edited then.
	Edited Action = "edited"
	// TakenDown and PutBack: it is out of the feed, or in it again, as it was.
	TakenDown Action = "taken_down"
	PutBack   Action = "put_back"
	// CommentDown: it was edited so that it has a comment less.
	CommentDown Action = "comment_taken_down"
	// Erased: it is gone for good, taken down or not, and the log has its id alone.
	Erased Action = "erased"
)

// Change is one entry of the log: who did what to which post, and when.
type Change struct {
	// Number is the place in the log, ascending; no two changes of a store ever have the same. It is the
	// version of the post, too, until the next change.
	Number int64
	// At is in milliseconds since 1970, by the clock of who wrote.
	At     int64
	Editor string
	Action Action
	Post   int64
	// Title is that of the post after the change.
	Title string
}

// Kept is a post as a Desk has it.
type Kept struct {
	Entry
	// Version is the Number of the last change, 0 of what a filling brought.
	Version int64
	// Down: it was taken down.
	Down bool
}

// Condition is when a change may take place. The zero Condition is always.
type Condition struct {
	// Version is that of the post, with HasVersion.
	Version    int64
	HasVersion bool
	// Absent: there must be no post with the id, taken down or not.
	Absent bool
	// Author is the entry's author as somebody saw it, with a profile that is that of all its posts. If the entry has the same,
	// what is stored stays, whatever that is by now; if not, what is stored must still be what was seen. Without it the
	// entry's is stored.
	Author *Author
}

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

// kept is a post that was taken down.
func (t Tx) kept(ctx context.Context, id int64) (e Entry, err error) {
	var line string
	if err = t.Rows(ctx, "kept", func(row Scan) error { return row(&line) }, id); err == nil {
		e, err = ParseLine([]byte(line))
	}
	return e, err
}

// whole is a post that is not taken down.
func (t Tx) whole(ctx context.Context, id int64) (Entry, error) {
	all, err := t.after(ctx, id-1, 1)
	if err == nil && (len(all) == 0 || all[0].ID != id) {
		err = ErrNotFound
	}
	if err != nil {
		return Entry{}, err
	}
	return all[0], nil
}

// after are at most limit posts with ids above one, in their order, with everything about them.
func (t Tx) after(ctx context.Context, id int64, limit int) ([]Entry, error) {
	posts, err := t.list(ctx, "posts after", limit, id, limit)
	if err != nil || len(posts) == 0 {
		return nil, err
	}
	ids := make([]int64, len(posts))
	for i := range posts {
		ids[i] = posts[i].ID
	}
	parts := map[Part]Details{}
	for _, part := range Parts() {
		if parts[part], err = t.details(ctx, part, t.Posts(ids...), MaxComments); err != nil {
			return nil, err
		}
	}
	all := make([]Entry, len(posts))
	for i, p := range posts {
		e := &all[i]
		e.Post = p
		if profile, ok := parts[PartAuthor][p.ID].(*Profile); ok {
			e.Author = profile.Author
		}
		if media, ok := parts[PartMedia][p.ID].(*Media); ok {
			e.Media = media.Media
		}
		if r, ok := parts[PartResponses][p.ID].(*Responses); ok {
			e.Reactions, e.Comments = r.Reactions, r.Comments
		}
	}
	return all, nil
}

// Entry is Desk's, in a transaction that sees one state.
func (t Tx) Entry(ctx context.Context, id int64) (k Kept, err error) {
	have, err := t.state(ctx, id)
	if err != nil {
		return k, err
	}
	k.Version, k.Down = have.version, have.down
	switch {
	case !have.there:
		err = ErrNotFound
	case have.down:
		k.Entry, err = t.kept(ctx, id)
	default:
		k.Entry, err = t.whole(ctx, id)
	}
	return k, err
}

// eachBatch is how many posts Each reads at a time: invented ones have some hundred kilobytes.
const eachBatch = 100

// Each is Desk's, in a transaction that sees one state.
func (t Tx) Each(ctx context.Context, progress dataset.Progress, use func(e *Entry) error) error {
	var total, done int64
	if err := t.Rows(ctx, "count", func(row Scan) error { return row(&total) }); err != nil {
		return err
	}
	for last := int64(0); ; {
		all, err := t.after(ctx, last, eachBatch)
		if err != nil {
			return err
		}
		for i := range all {
			if err := use(&all[i]); err != nil {
				return err
			}
			last = all[i].ID
		}
		done += int64(len(all))
		if progress != nil {
			progress(done, total)
		}
		if len(all) < eachBatch {
			return nil
		}
	}
}

// Down is Desk's, for a database.
func (r Rows) Down(ctx context.Context, before int64, limit int) ([]Change, error) {
	return r.changes(ctx, "down", limit, orAll(before), limit)
}

// Changes is Desk's, for a database.
func (r Rows) Changes(ctx context.Context, post, before int64, limit int) ([]Change, error) {
	if post == 0 {
		return r.changes(ctx, "changes", limit, orAll(before), limit)
	}
	return r.changes(ctx, "changes of post", limit, post, orAll(before), limit)
}

// orAll is a number that others are below, or what all are below if it is 0: plain conditions can use indexes.
func orAll(before int64) int64 {
	if before == 0 {
		return math.MaxInt64
	}
	return before
}

// Since is Desk's, for a database.
func (r Rows) Since(ctx context.Context, number int64, limit int) ([]Change, error) {
	return r.changes(ctx, "changes since", limit, number, limit)
}

func (r Rows) changes(ctx context.Context, query string, limit int, args ...any) ([]Change, error) {
	all := make([]Change, 0, limit)
	err := r(ctx, query, func(row Scan) error {
		var c Change
		err := row(&c.Number, &c.At, &c.Editor, (*string)(&c.Action), &c.Post, &c.Title)
		all = append(all, c)
		return err
	}, args...)
	return all, err
}

// Authors is Desk's, for a database.
func (r Rows) Authors(ctx context.Context, name string, limit int) ([]Author, error) {
	var all []Author
	err := r(ctx, "authors by name", func(row Scan) error {
		var a Author
		err := a.scan(row)
		all = append(all, a)
		return err
	}, name, limit)
	return all, err
}

// DeskQueries are those of a Desk in PostgreSQL's SQL, but for lock, which takes the turn of an id
// until the transaction ends. SQLite takes them with ? for $, without the schema and types.
func DeskQueries() map[string]string {
	return map[string]string{
		"state": `SELECT version, published, title, false FROM feed.posts WHERE id = $1
			UNION ALL SELECT version, published, title, true FROM feed.kept WHERE id = $1`,
		"next post":   `SELECT coalesce(max(id), 0) + 1 FROM (SELECT id FROM feed.posts UNION ALL SELECT id FROM feed.kept) AS all_posts WHERE id < $1`,
		"next author": `SELECT coalesce(max(id), 0) + 1 FROM feed.authors WHERE id < $1`,
		"author":      `SELECT id, name, role, team, about, photo FROM feed.authors WHERE id = $1`,
		"authors by name": `SELECT id, name, role, team, about, photo FROM feed.authors
			WHERE $1 = '' OR name = $1 ORDER BY name, id LIMIT $2`,

		"log":            `INSERT INTO feed.changes (at, editor, action, post, title) VALUES ($1, $2, $3, $4, $5) RETURNING number`,
		"forget changes": `DELETE FROM feed.changes WHERE number <= $1`,
		"changes": `SELECT number, at, editor, action, post, title FROM feed.changes
			WHERE number < $1 ORDER BY number DESC LIMIT $2`,
		"changes of post": `SELECT number, at, editor, action, post, title FROM feed.changes
			WHERE post = $1 AND number < $2 ORDER BY number DESC LIMIT $3`,
		"changes since": `SELECT number, at, editor, action, post, title FROM feed.changes
			WHERE number > $1 ORDER BY number LIMIT $2`,

		"stamp":          `UPDATE feed.posts SET version = $2 WHERE id = $1`,
		"drop media":     `DELETE FROM feed.media WHERE post = $1`,
		"drop reactions": `DELETE FROM feed.reactions WHERE post = $1`,
		"drop comments":  `DELETE FROM feed.comments WHERE post = $1`,
		"drop post":      `DELETE FROM feed.posts WHERE id = $1`,

		"keep":          `INSERT INTO feed.kept (id, version, published, title, editor, at, line) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		"kept":          `SELECT line FROM feed.kept WHERE id = $1`,
		"drop kept":     `DELETE FROM feed.kept WHERE id = $1`,
		"forget titles": `UPDATE feed.changes SET title = '' WHERE post = $1`,
		"down": `SELECT version, at, editor, 'taken_down', id, title FROM feed.kept
			WHERE version < $1 ORDER BY version DESC LIMIT $2`,

		"posts after": `SELECT id, published, author, pinned, media, comments, reactions, title, text FROM feed.posts
			WHERE id > $1 ORDER BY id LIMIT $2`,
		"count": `SELECT count(*) FROM feed.posts`,
	}
}

// Put is Store's, of a Desk.
func Put(ctx context.Context, d Desk, e *Entry) error {
	e.Complete()
	_, err := d.Apply(ctx, Change{Action: Written, Editor: EditorAPI, Post: e.ID}, e, Condition{Absent: true})
	return err
}

// Delete is Store's, of a Desk.
func Delete(ctx context.Context, d Desk, id int64) error {
	_, err := d.Apply(ctx, Change{Action: Erased, Editor: EditorAPI, Post: id}, nil, Condition{})
	return err
}
