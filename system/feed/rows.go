package feed

import "context"

// Rows runs one of a database's queries, named page, media, authors, reactions, comments, pinned
// or unread, or as in DeskQueries, and has scan read each row: its values come in the order of the fields below.
type Rows func(ctx context.Context, query string, scan func(row Scan) error, args ...any) error

// Scan copies the values of a row.
type Scan = func(to ...any) error

// Page is Store's, for a database.
func (r Rows) Page(ctx context.Context, behind Position, limit int) ([]Post, error) {
	return r.list(ctx, "page", limit, behind.Published, behind.ID, limit)
}

// list reads at most limit posts.
func (r Rows) list(ctx context.Context, query string, limit int, args ...any) ([]Post, error) {
	posts := make([]Post, 0, limit)
	err := r(ctx, query, func(row Scan) error {
		var p Post
		err := row(&p.ID, &p.Published, &p.Author, &p.Pinned, &p.Media, &p.Comments, &p.Reactions, &p.Title, &p.Text)
		posts = append(posts, p)
		return err
	}, args...)
	return posts, err
}

// Details is Store's, of posts as the database takes them. Responses are two queries, for
// there are two tables of them.
func (r Rows) Details(ctx context.Context, part Part, posts any) (Details, error) {
	return r.details(ctx, part, posts, ShownComments)
}

// details is Details with at most so many comments of each post.
func (r Rows) details(ctx context.Context, part Part, posts any, comments int) (found Details, err error) {
	found = Details{}
	switch part {
	case PartMedia:
		err = r(ctx, "media", func(row Scan) error {
			var post int64
			var m Medium
			err := row(&post, &m.Kind, &m.URL, &m.Alt, &m.Width, &m.Height)
			found.AddMedium(post, m)
			return err
		}, posts)
	case PartAuthor:
		err = r(ctx, "authors", func(row Scan) error {
			var p Profile
			err := row(&p.Post, &p.Author.ID, &p.Author.Name, &p.Author.Role, &p.Author.Team, &p.Author.About, &p.Author.Photo)
			found[p.Post] = &p
			return err
		}, posts)
	case PartResponses:
		err = r.responses(ctx, posts, comments, found)
	}
	return found, err
}

func (r Rows) responses(ctx context.Context, posts any, comments int, found Details) error {
	err := r(ctx, "reactions", func(row Scan) error {
		var post int64
		var reaction Reaction
		err := row(&post, &reaction.Kind, &reaction.Count)
		found.AddReaction(post, reaction)
		return err
	}, posts)
	if err != nil {
		return err
	}
	return r(ctx, "comments", func(row Scan) error {
		var post int64
		var c Comment
		err := row(&post, &c.Author, &c.Published, &c.Text)
		found.AddComment(post, c)
		return err
	}, posts, comments)
}

// Notices is Store's, for a database.
func (r Rows) Notices(ctx context.Context, seen int64) (Notices, error) {
	n := Notices{Pinned: []Notice{}}
	err := r(ctx, "pinned", func(row Scan) error {
		var p Notice
		err := row(&p.Post, &p.Published, &p.Title)
		n.Pinned = append(n.Pinned, p)
		return err
	}, seen, MaxPinned)
	if err != nil {
		return n, err
	}
	return n, r(ctx, "unread", func(row Scan) error { return row(&n.Unread) }, seen, MaxUnread)
}
