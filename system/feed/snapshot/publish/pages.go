// Package publish publishes a feed as snapshots, again and again: its newest posts with everything about them, and
// the notices.
//
//	pages/1.json   {"next":"pages/2.json","posts":[{"author":{},"media":{},"post":{},"responses":{}}]}
//	notices.json   the notices for somebody who has seen nothing
//
// A page has PageSize posts, the newest first; next is the name of the one behind it, empty on the last. What is
// in a page is byte for byte what the live interface answers: post is an element of /feed, and author, media and
// responses are /posts/{id}/author and so on, null where there is none. A client that has seen posts counts its unread ones
// in the pages.
//
// What is published anybody may read, so a Page has nothing that the live interface does not tell everybody: a test
// holds the list of its fields.
package publish

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"loadstone/system/feed"
	"loadstone/system/feed/snapshot"
)

const (
	// PageSize is how many posts a page has, but for the last.
	PageSize = 10
	// batch is how many posts are read in one query.
	batch = 10 * PageSize

	noticesName = "notices.json"
)

// Page is a page, with its fields in the order of their names as all that the feed answers.
type Page struct {
	Next  string `json:"next"`
	Posts []Post `json:"posts"`
}

// Post is a post with everything about it.
type Post struct {
	Author    *feed.Profile   `json:"author"`
	Media     *feed.Media     `json:"media"`
	Post      feed.Post       `json:"post"`
	Responses *feed.Responses `json:"responses"`
}

// Pages reads the newest posts, at most so many, and the notices. It sees each part of a post as it is when it
// is read; posts that come meanwhile are left to the next time, and those that go are left out.
func Pages(ctx context.Context, store feed.Store, most int) ([]snapshot.Page, error) {
	posts, err := read(ctx, store, most)
	if err != nil {
		return nil, fmt.Errorf("read the posts: %w", err)
	}
	notices, err := store.Notices(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("read the notices: %w", err)
	}
	body, err := json.Marshal(notices)
	if err != nil {
		return nil, err
	}
	pages := []snapshot.Page{{Name: noticesName, Body: body}}
	for n := 1; len(posts) > 0 || n == 1; n++ {
		page := Page{Posts: posts[:min(len(posts), PageSize)]}
		if posts = posts[len(page.Posts):]; len(posts) > 0 {
			page.Next = nameOf(n + 1)
		}
		if body, err = json.Marshal(page); err != nil {
			return nil, err
		}
		pages = append(pages, snapshot.Page{Name: nameOf(n), Body: body})
	}
	return pages, nil
}

func nameOf(page int) string { return fmt.Sprintf("pages/%d.json", page) }

func read(ctx context.Context, store feed.Store, most int) ([]Post, error) {
	all := []Post{} // in JSON an empty list, and not null
	for at := feed.Start; len(all) < most; {
		limit := min(batch, most-len(all))
		posts, err := store.Page(ctx, at, limit)
		if err != nil {
			return nil, err
		}
		whole, err := details(ctx, store, posts)
		if err != nil {
			return nil, err
		}
		all = append(all, whole...)
		if len(posts) < limit {
			break
		}
		at = posts[len(posts)-1].Position()
	}
	return all, nil
}

// details reads what belongs to posts. Without an author a post is gone.
func details(ctx context.Context, store feed.Store, posts []feed.Post) (whole []Post, err error) {
	ids, found := make([]int64, len(posts)), make(map[feed.Part]feed.Details, len(feed.Parts()))
	for i := range posts {
		ids[i] = posts[i].ID
	}
	for _, part := range feed.Parts() {
		if found[part], err = store.Details(ctx, part, ids); err != nil {
			return nil, err
		}
	}
	for i := range posts {
		p := Post{Post: posts[i]}
		p.Author, _ = found[feed.PartAuthor][p.Post.ID].(*feed.Profile)
		p.Media, _ = found[feed.PartMedia][p.Post.ID].(*feed.Media)
		p.Responses, _ = found[feed.PartResponses][p.Post.ID].(*feed.Responses)
		if p.Author != nil {
			whole = append(whole, p)
		}
	}
	return whole, nil
}

// without is the body of a page without some posts.
func without(page snapshot.Page, posts []int64) ([]byte, error) {
	if page.Name == noticesName {
		var n feed.Notices
		if err := json.Unmarshal(page.Body, &n); err != nil {
			return nil, fmt.Errorf("read %s: %w", page.Name, err)
		}
		n.Pinned = slices.DeleteFunc(n.Pinned, func(n feed.Notice) bool { return slices.Contains(posts, n.Post) })
		return json.Marshal(n)
	}
	var p Page
	if err := json.Unmarshal(page.Body, &p); err != nil {
		return nil, fmt.Errorf("read %s: %w", page.Name, err)
	}
	p.Posts = slices.DeleteFunc(p.Posts, func(p Post) bool { return slices.Contains(posts, p.Post.ID) })
	return json.Marshal(p)
}
