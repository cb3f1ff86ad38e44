package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"loadstone/block/dataset"
	"loadstone/block/postgres"
	"loadstone/system/feed"
)

// tables are what rows go into by COPY, in this order, with their columns.
var tables = []struct {
	name    string
	columns []string
}{
	{"authors", []string{"id", "name", "role", "team", "about", "photo"}},
	{"posts", []string{"id", "published", "author", "pinned", "media", "comments", "reactions", "title", "text"}},
	{"media", []string{"post", "place", "kind", "url", "alt", "width", "height"}},
	{"reactions", []string{"post", "place", "kind", "count"}},
	{"comments", []string{"post", "place", "author", "published", "text"}},
}

// rows are of entries, by table.
type rows struct {
	of   map[string][][]any
	text int // bytes
}

func newRows() *rows { return &rows{of: map[string][][]any{}} }

func (r *rows) add(table string, row ...any) {
	r.of[table] = append(r.of[table], row)
	for _, value := range row {
		if text, ok := value.(string); ok {
			r.text += len(text)
		}
	}
}

// full reports that it is time to copy them.
func (r *rows) full() bool { return len(r.of["posts"]) >= maxEntries || r.text >= maxText }

// put adds an entry, but for its author.
func (r *rows) put(e *feed.Entry) {
	p := &e.Post
	r.add("posts", p.ID, p.Published, p.Author, p.Pinned, p.Media, p.Comments, p.Reactions, p.Title, p.Text)
	for i, m := range e.Media {
		r.add("media", p.ID, i, m.Kind, m.URL, m.Alt, m.Width, m.Height)
	}
	for i, c := range e.Reactions {
		r.add("reactions", p.ID, i, c.Kind, c.Count)
	}
	for i, c := range e.Comments {
		r.add("comments", p.ID, i, c.Author, c.Published, c.Text)
	}
}

func (r *rows) author(a *feed.Author) {
	r.add("authors", a.ID, a.Name, a.Role, a.Team, a.About, a.Photo)
}

// copyTo stores the rows and forgets them.
func (r *rows) copyTo(ctx context.Context, tx pgx.Tx) error {
	for _, table := range tables {
		all := r.of[table.name]
		if len(all) == 0 {
			continue
		}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"feed", table.name}, table.columns, pgx.CopyFromRows(all)); err != nil {
			return fmt.Errorf("store %s: %w", table.name, err)
		}
		clear(all) // so that none of their text is held
		r.of[table.name] = all[:0]
	}
	r.text = 0
	return nil
}

const putAuthor = `INSERT INTO feed.authors (id, name, role, team, about, photo) VALUES ($1, $2, $3, $4, $5, $6)
	ON CONFLICT (id) DO UPDATE SET name = $2, role = $3, team = $4, about = $5, photo = $6`

// What is copied at a time: so many entries, of which invented ones have about a megabyte,
// or fewer with so many bytes of text. One may have 4 MB.
const (
	maxEntries = 500
	maxText    = 1 << 20
)

// Fill implements feed.Store, in one transaction over a connection of its own: filling
// everything takes as long as it takes.
func (s *Store) Fill(ctx context.Context, source dataset.Source[feed.Entry], progress dataset.Progress) (kept bool, err error) {
	conn, err := postgres.Connect(ctx, s.cfg.URL)
	if err != nil {
		return false, fmt.Errorf("fill the feed in %s: %w", s.name, classify(ctx, err))
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // what was committed stays
	err = postgres.BeginLocked(ctx, conn, fillLock, func(tx pgx.Tx) error {
		if kept, err = occupied(ctx, tx, source.Meta()); err != nil || kept {
			return err
		}
		return fill(ctx, tx, source, progress)
	})
	if err != nil { // of the database, or of the source
		return false, fmt.Errorf("fill the feed in %s: %w", s.name, err)
	}
	return kept, nil
}

func fill(ctx context.Context, tx pgx.Tx, source dataset.Source[feed.Entry], progress dataset.Progress) error {
	// Authors of posts that were deleted are there still.
	if _, err := tx.Exec(ctx, "DELETE FROM feed.authors"); err != nil {
		return err
	}
	all, known := newRows(), map[int64]bool{}
	err := dataset.Each(ctx, source, progress, func(e *feed.Entry) error {
		if !known[e.Author.ID] {
			known[e.Author.ID] = true
			all.author(&e.Author)
		}
		all.put(e)
		if !all.full() {
			return nil
		}
		return all.copyTo(ctx, tx)
	})
	if err != nil {
		return err
	}
	if err := all.copyTo(ctx, tx); err != nil {
		return err
	}
	// The plans of queries are made once, so the database has to know its tables by then.
	if _, err := tx.Exec(ctx, "ANALYZE feed.authors, feed.posts, feed.media, feed.reactions, feed.comments"); err != nil {
		return err
	}
	meta := source.Meta()
	_, err = tx.Exec(ctx, "UPDATE feed.data_set SET origin = $1, fingerprint = $2, posts = $3", meta.Origin, meta.Fingerprint, meta.Count)
	return err
}

// occupied is feed.Occupied.
func occupied(ctx context.Context, tx pgx.Tx, with dataset.Meta) (kept bool, err error) {
	have, err := readMeta(ctx, tx)
	return feed.Occupied(have, err, func() (posts bool, err error) {
		err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM feed.posts) OR EXISTS (SELECT 1 FROM feed.kept)").Scan(&posts)
		return posts, err
	}, with)
}
