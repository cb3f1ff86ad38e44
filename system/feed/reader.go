package feed

import "context"

// Reader is what clients can ask of a store.
type Reader struct {
	Store   Store
	Cursors *Cursors
	// Each reads the details of several posts by one query for each post, instead of one for
	// all of them.
	Each bool
	// Asked is told of each query of a store before it is made: page, notices, or a Part.
	Asked func(what string)
}

// Page returns the page at a cursor, empty for the first.
func (r *Reader) Page(ctx context.Context, cursor []byte, limit int) (page Page, err error) {
	at, err := r.Cursors.Read(cursor)
	if err != nil {
		return page, err
	}
	r.Asked("page")
	// One more tells whether there is a next page.
	if page.Posts, err = r.Store.Page(ctx, at, limit+1); err != nil {
		return page, err
	}
	if len(page.Posts) > limit {
		page.Posts = page.Posts[:limit]
		page.Next = r.Cursors.Write(page.Posts[limit-1].Position())
	}
	return page, nil
}

// Found is a detail, or why there is none.
type Found struct {
	Detail Detail
	Err    error
}

// Details finds one part of posts, in their order. What fails for one fails for that alone,
// if each is asked for by itself.
func (r *Reader) Details(ctx context.Context, part Part, posts []int64) []Found {
	all := make([]Found, 0, len(posts))
	size := len(posts)
	if r.Each {
		size = 1
	}
	for ; len(posts) > 0; posts = posts[size:] {
		r.Asked(string(part))
		details, err := r.Store.Details(ctx, part, posts[:size])
		for _, id := range posts[:size] {
			found := Found{details[id], err}
			if found.Detail == nil && err == nil {
				found.Err = ErrNotFound
			}
			all = append(all, found)
		}
	}
	return all
}

// Notices are those for somebody who has seen the posts up to a time.
func (r *Reader) Notices(ctx context.Context, seen int64) (Notices, error) {
	r.Asked("notices")
	return r.Store.Notices(ctx, seen)
}
