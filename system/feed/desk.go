package feed

import (
	"context"

	"loadstone/block/dataset"
)

// Bounds of what a Desk keeps.
const (
	// KeptChanges is how many changes are in the log, the newest.
	KeptChanges = 100_000
	// MaxEditor bounds the name of an editor, in bytes.
	MaxEditor = 64
)

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
