package feed

import "context"

// Reader is what clients can ask of a store.
type Reader struct {
	Store   Store
	Cursors *Cursors
	// Each reads the details of several posts by one query for each post, instead of one for
	// all of them.
	Each bool
	// Cache, if not nil, is one of the store.
	Cache *Cache
	// Asked is told of each query of a store before it is made: page, notices, or a Part.
	Asked func(what string)
}

// Page returns the page at a cursor, empty for the first.
func (r *Reader) Page(ctx context.Context, cursor []byte, limit int) (page Page, err error) {
	at, err := r.Cursors.Read(cursor)
	if err != nil {
		return page, err
	}
	most := limit + 1 // one more tells whether there is a next page
	page.Posts, err = read(ctx, r.Cache, Question{"page", at.Published, at.ID, int64(most)}, postsBytes, func() ([]Post, error) {
		r.Asked("page")
		return r.Store.Page(ctx, at, most)
	})
	if err != nil {
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

func found(d Detail, err error) Found {
	if d == nil && err == nil {
		err = ErrNotFound
	}
	return Found{d, err}
}

// Details finds one part of posts, in their order. What fails for one fails for that alone,
// if each is asked for by itself.
func (r *Reader) Details(ctx context.Context, part Part, posts []int64) []Found {
	reading, all := r.Cache.Read(ctx), make([]Found, len(posts))
	ids, places := make([]int64, 0, len(posts)), make([]int, 0, len(posts)) // of those to be read
	for i, id := range posts {
		if answer, ok := reading.Find(Question{what: string(part), a: id}); ok {
			detail, _ := answer.(Detail) // nil: there is none
			all[i] = found(detail, nil)
		} else {
			ids, places = append(ids, id), append(places, i)
		}
	}
	size := len(ids)
	if r.Each {
		size = 1
	}
	for ; len(ids) > 0; ids, places = ids[size:], places[size:] {
		r.Asked(string(part))
		details, err := r.Store.Details(ctx, part, ids[:size])
		for i, id := range ids[:size] {
			all[places[i]] = found(details[id], err)
			if err == nil {
				reading.Keep(Question{what: string(part), a: id}, details[id], detailBytes(details[id]))
			}
		}
	}
	return all
}

// Notices are those for somebody who has seen the posts up to a time.
func (r *Reader) Notices(ctx context.Context, seen int64) (Notices, error) {
	return read(ctx, r.Cache, Question{what: "notices", a: seen}, noticesBytes, func() (Notices, error) {
		r.Asked("notices")
		return r.Store.Notices(ctx, seen)
	})
}
