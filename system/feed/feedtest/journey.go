package feedtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"loadstone/system/feed"
)

// Way is how an app asks for what it shows, see package feed.
type Way struct {
	Name string
	// Bundled asks for all details of the posts of a page in one request.
	Bundled bool
	// Posts is how many are on a page.
	Posts int
	// Requests is how many a journey takes.
	Requests int
}

// Ways are the three.
func Ways() []Way {
	return []Way{{"separate", false, 1, 265}, {"bundled", true, 1, 140}, {"batched", true, 10, 28}}
}

// part is a part of a bundle.
type part struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
}

// Journey makes one journey against the server at url, and returns what the user has read in
// the end: every post and each of its details, as they came.
func Journey(tb testing.TB, client *http.Client, url string, way Way) string {
	tb.Helper()
	j := journey{tb: tb, client: client, url: url}
	for cursor := ""; len(j.posts) < feed.Reading; {
		left := feed.Reading - len(j.posts)
		var page struct {
			Next  string            `json:"next"`
			Posts []json.RawMessage `json:"posts"`
		}
		j.get(fmt.Sprintf("/feed?limit=%d&cursor=%s", min(way.Posts, left), cursor), &page)
		if len(page.Posts) == 0 {
			tb.Fatalf("the list ended after %d posts", len(j.posts))
		}
		j.posts = append(j.posts, page.Posts...)
		j.read(page.Posts, way.Bundled)
		cursor = page.Next
	}
	for range feed.Asking {
		var n feed.Notices
		j.get("/notices?seen=0", &n)
	}
	return j.seen.String()
}

type journey struct {
	tb     testing.TB
	client *http.Client
	url    string
	posts  []json.RawMessage
	seen   strings.Builder
}

// read gets the details of posts.
func (j *journey) read(posts []json.RawMessage, bundled bool) {
	j.tb.Helper()
	var ids []string
	parsed := make([]feed.Post, len(posts))
	for i := range posts {
		if err := json.Unmarshal(posts[i], &parsed[i]); err != nil {
			j.tb.Fatal(err)
		}
		ids = append(ids, fmt.Sprint(parsed[i].ID))
	}
	var all struct {
		Bundles []struct {
			Post                     int64
			Media, Author, Responses part
		}
	}
	if bundled {
		j.get("/bundle?posts="+strings.Join(ids, ","), &all)
		if len(all.Bundles) != len(posts) {
			j.tb.Fatalf("got %d bundles of %d posts", len(all.Bundles), len(posts))
		}
	}
	for i := range posts {
		parts := make(map[feed.Part]part, len(feed.Parts()))
		if bundled {
			b := all.Bundles[i]
			parts = map[feed.Part]part{feed.PartMedia: b.Media, feed.PartAuthor: b.Author, feed.PartResponses: b.Responses}
		}
		fmt.Fprintf(&j.seen, "%s\n", posts[i])
		for _, name := range feed.Parts() {
			if name == feed.PartMedia && parsed[i].Media == 0 {
				continue // the list has said that there is nothing to ask for
			}
			if !bundled {
				var body json.RawMessage
				j.get(fmt.Sprintf("/posts/%d/%s", parsed[i].ID, name), &body)
				parts[name] = part{http.StatusOK, body}
			}
			if parts[name].Status != http.StatusOK {
				j.tb.Errorf("%s of post %d: status %d, %s", name, parsed[i].ID, parts[name].Status, parts[name].Body)
			}
			fmt.Fprintf(&j.seen, "  %s\n", parts[name].Body)
		}
	}
}

// get reads the answer to one request.
func (j *journey) get(target string, into any) {
	j.tb.Helper()
	request, err := http.NewRequestWithContext(j.tb.Context(), http.MethodGet, j.url+target, http.NoBody)
	if err != nil {
		j.tb.Fatal(err)
	}
	response, err := j.client.Do(request)
	if err != nil {
		j.tb.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // read to its end
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil || response.StatusCode != http.StatusOK {
		j.tb.Fatalf("GET %s: status %d, %v, %.400s", target, response.StatusCode, err, body)
	}
}

// Published reads as many posts as a user reads of the feed that is published below the url, and returns
// them as Journey does.
func Published(tb testing.TB, client *http.Client, url string) string {
	tb.Helper()
	j := journey{tb: tb, client: client, url: url}
	read := 0
	for name := "pages/1.json"; name != "" && read < feed.Reading; {
		var page struct {
			Next  string
			Posts []struct{ Author, Media, Post, Responses json.RawMessage }
		}
		j.get("/feed/"+name, &page)
		for _, p := range page.Posts[:min(len(page.Posts), feed.Reading-read)] {
			read++
			fmt.Fprintf(&j.seen, "%s\n", p.Post)
			for _, detail := range []json.RawMessage{p.Media, p.Author, p.Responses} {
				if string(detail) != "null" {
					fmt.Fprintf(&j.seen, "  %s\n", detail)
				}
			}
		}
		name = page.Next
	}
	return j.seen.String()
}
