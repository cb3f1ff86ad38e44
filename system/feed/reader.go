package feed

import (
	"context"

	"loadstone/block/versioned"
)

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

// View is what one request reads. The store is asked for its version once, when the View begins,
// and whatever is found in the cache is of that version. It is safe for concurrent use.
type View struct {
	*Reader

	cached versioned.Reading[Question, any]
}

// View begins one.
func (r *Reader) View(ctx context.Context) View { return View{r, r.Cache.Read(ctx)} }

// Page returns the page at a cursor, empty for the first.
func (v View) Page(ctx context.Context, cursor []byte, limit int) (page Page, err error) {
	at, err := v.Cursors.Read(cursor)
	if err != nil {
		return page, err
	}
	most := limit + 1 // one more tells whether there is a next page
	page.Posts, err = read(v, Question{"page", at.Published, at.ID, int64(most)}, postsBytes, func() ([]Post, error) {
		v.Asked("page")
		return v.Store.Page(ctx, at, most)
	})
	if err != nil {
		return page, err
	}
	if len(page.Posts) > limit {
		page.Posts = page.Posts[:limit]
		page.Next = v.Cursors.Write(page.Posts[limit-1].Position())
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
func (v View) Details(ctx context.Context, part Part, posts []int64) []Found {
	all := make([]Found, len(posts))
	ids, places := make([]int64, 0, len(posts)), make([]int, 0, len(posts)) // of those to be read
	for i, id := range posts {
		if answer, ok := v.cached.Find(Question{what: string(part), a: id}); ok {
			detail, _ := answer.(Detail) // nil: there is none
			all[i] = found(detail, nil)
		} else {
			ids, places = append(ids, id), append(places, i)
		}
	}
	size := len(ids)
	if v.Each {
		size = 1
	}
	for ; len(ids) > 0; ids, places = ids[size:], places[size:] {
		v.Asked(string(part))
		details, err := v.Store.Details(ctx, part, ids[:size])
		for i, id := range ids[:size] {
			all[places[i]] = found(details[id], err)
			if err == nil {
				v.cached.Keep(Question{what: string(part), a: id}, details[id], detailBytes(details[id]))
			}
		}
	}
	return all
}

// Notices are those for somebody who has seen the posts up to a time.
func (v View) Notices(ctx context.Context, seen int64) (Notices, error) {
	return read(v, Question{what: "notices", a: seen}, noticesBytes, func() (Notices, error) {
		v.Asked("notices")
		return v.Store.Notices(ctx, seen)
	})
}
