package feed

import (
	"context"
	"math"

	"loadstone/block/dataset"
)

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
