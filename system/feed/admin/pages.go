package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"loadstone/block/backoffice"
	"loadstone/block/dataset"
	"loadstone/system/feed"
)

// listed is how many posts or changes are on a page.
const listed = 20

// Bounds of a search, in bytes, posts and time: who wants older posts goes on from where it ended.
const (
	maxQuery   = 200
	maxScan    = 20_000
	scanBatch  = 500
	searchTime = 2 * time.Second
)

// item is a post in a list.
type item struct {
	feed.Post

	Author string
}

// list shows the newest posts, or those in which a text is.
func (r *request) list(int64) error {
	query := backoffice.Line(r.QueryArgs().Peek("q"))
	if id, ok := dataset.ParseID(query); ok {
		return r.Redirect(postPath(id))
	}
	v := view{Title: "Posts", Done: r.Done()}
	page := map[string]any{"Query": query, "May": r.mayWrite(), "Newest": "", "Older": ""}
	v.Page = page
	if len(query) > maxQuery {
		v.Problem = "This is too long to search for."
		return r.Show(http.StatusOK, "list", v)
	}
	text := string(r.QueryArgs().Peek("behind"))
	behind := feed.Start
	if text != "" {
		if _, err := fmt.Sscanf(text, "%d-%d", &behind.Published, &behind.ID); err != nil {
			return &refusal{Status: http.StatusBadRequest, Text: "There is no such place in the list."}
		}
	}
	items, last, more, err := r.find(strings.ToLower(query), behind)
	if err != nil {
		return err
	}
	page["Items"], page["First"] = items, text == ""
	if more {
		page["Older"] = fmt.Sprintf("%d-%d", last.Published, last.ID)
	}
	if query != "" {
		v.Title = "Posts with " + strconv.Quote(query)
		page["Newest"] = "?q=" + url.QueryEscape(query)
	}
	return r.Show(http.StatusOK, "list", v)
}

// find returns posts behind a position in which a text in small letters is, the last position
// that it looked at, and whether there may be more behind.
func (r *request) find(text string, behind feed.Position) (items []item, last feed.Position, more bool, err error) {
	until, batch := time.Now().Add(searchTime), scanBatch
	if text == "" {
		batch = listed
	}
	for scanned := 0; ; scanned += batch {
		posts, err := r.desk.Page(r.Within, behind, batch)
		if err != nil {
			return nil, behind, false, err
		}
		names, err := r.names(posts)
		if err != nil {
			return nil, behind, false, err
		}
		for i := range posts {
			p := &posts[i]
			behind = p.Position()
			if text == "" || strings.Contains(strings.ToLower(p.Title+"\n"+p.Text+"\n"+names[p.ID]), text) {
				items = append(items, item{*p, names[p.ID]})
			}
			if len(items) == listed {
				return items, behind, i+1 < len(posts) || len(posts) == batch, nil
			}
		}
		if len(posts) < batch || scanned+batch >= maxScan || time.Now().After(until) {
			return items, behind, len(posts) == batch, nil
		}
	}
}

// names are those of the authors of posts, by the posts' ids.
func (r *request) names(posts []feed.Post) (map[int64]string, error) {
	ids := make([]int64, len(posts))
	for i := range posts {
		ids[i] = posts[i].ID
	}
	details, err := r.desk.Details(r.Within, feed.PartAuthor, ids)
	names := make(map[int64]string, len(posts))
	for id, d := range details {
		if p, ok := d.(*feed.Profile); ok {
			names[id] = p.Author.Name
		}
	}
	return names, err
}

func (r *request) post(id int64) error { return r.showPost(id, http.StatusOK, r.Done(), "") }

func (r *request) showPost(id int64, status int, done, problem string) error {
	k, err := r.desk.Entry(r.Within, id)
	if err != nil && !errors.Is(err, feed.ErrNotFound) {
		return err
	}
	before := number(r.QueryArgs().Peek("before"))
	page, errLog := r.changes(func(ctx context.Context, limit int) ([]feed.Change, error) {
		return r.desk.Changes(ctx, id, before, limit)
	})
	if errLog != nil {
		return errLog
	}
	if err != nil && len(page["Changes"].([]feed.Change)) == 0 { //nolint:forcetypeassert // changes makes it
		return err
	}
	page["Path"] = Path + postPath(id)
	page["ID"], page["There"], page["Kept"], page["May"], page["First"] = id, err == nil, &k, r.mayWrite(), before == 0
	title := k.Title
	if title == "" {
		title = "Post " + strconv.FormatInt(id, 10)
	}
	return r.Show(status, "post", view{Title: title, Done: done, Problem: problem, Page: page})
}

// number is one that was asked for, 0 for what is none.
func number(text []byte) int64 {
	n, _ := dataset.ParseID(text)
	return n
}

// changes are a page of some.
func (r *request) changes(list func(ctx context.Context, limit int) ([]feed.Change, error)) (map[string]any, error) {
	all, err := list(r.Within, listed+1)
	page := map[string]any{"Changes": all, "Older": int64(0)}
	if len(all) > listed {
		page["Changes"], page["Older"] = all[:listed], all[listed-1].Number
	}
	return page, err
}

func (r *request) log(int64) error {
	return r.showChanges("log", "Changes", func(ctx context.Context, before int64, limit int) ([]feed.Change, error) {
		return r.desk.Changes(ctx, 0, before, limit)
	})
}

func (r *request) down(int64) error { return r.showChanges("down", "Taken down", r.desk.Down) }

func (r *request) showChanges(path, title string, list func(ctx context.Context, before int64, limit int) ([]feed.Change, error)) error {
	before := number(r.QueryArgs().Peek("before"))
	page, err := r.changes(func(ctx context.Context, limit int) ([]feed.Change, error) { return list(ctx, before, limit) })
	if err != nil {
		return err
	}
	page["Path"], page["First"] = Path+"/"+path, before == 0
	return r.Show(http.StatusOK, "log", view{Title: title, Page: page})
}

// takeDown takes a post down, whatever it says by now.
func (r *request) takeDown(id int64) error {
	_, err := r.desk.Apply(r.Within, r.as(feed.TakenDown, id), nil, feed.Condition{})
	if err != nil && !errors.Is(err, feed.ErrDown) {
		return err
	}
	return r.Redirect(postPath(id) + "?done=down")
}

func (r *request) putBack(id int64) error {
	_, err := r.desk.Apply(r.Within, r.as(feed.PutBack, id), nil, feed.Condition{})
	if err != nil && !errors.Is(err, feed.ErrUp) {
		return err
	}
	return r.Redirect(postPath(id) + "?done=back")
}

// commentDown takes down the comment with a number, of the version that somebody saw.
func (r *request) commentDown(id int64) error {
	args := r.PostArgs()
	version, err := strconv.ParseInt(string(args.Peek("version")), 10, 64)
	i, errNumber := strconv.Atoi(string(args.Peek("comment")))
	if err != nil || errNumber != nil {
		return &refusal{Status: http.StatusBadRequest, Text: backoffice.Sentence(backoffice.ErrForm)}
	}
	k, err := r.desk.Entry(r.Within, id)
	if err != nil {
		return err
	}
	if k.Version == version && (i < 0 || i >= len(k.Comments)) {
		return &refusal{Status: http.StatusNotFound, Text: "There is no such comment."}
	}
	if k.Version == version {
		e := k.Entry
		e.Comments = append(e.Comments[:i:i], e.Comments[i+1:]...)
		_, err = r.desk.Apply(r.Within, r.as(feed.CommentDown, id), &e, feed.Condition{Version: version, HasVersion: true})
	}
	switch {
	case k.Version != version, errors.Is(err, feed.ErrChanged), errors.Is(err, feed.ErrDown):
		return r.showPost(id, http.StatusConflict, "", "Nothing was taken down: the post has changed since you opened the page. Below is what it is now.")
	case err != nil:
		return err
	}
	return r.Redirect(postPath(id) + "?done=comment#comments")
}
