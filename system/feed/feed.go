package feed

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"loadstone/block/dataset"
	"loadstone/block/text"
)

// Bounds of what one post has. Those of texts are in bytes.
const (
	MaxName      = 100
	MaxTitle     = 200
	MaxText      = 4000
	MaxAbout     = 500
	MaxLink      = 500
	MaxMedia     = 10
	MaxSide      = 20_000
	MaxReactions = 12
	MaxCount     = 1_000_000_000
	MaxComments  = 1000
	// ShownComments is how many of a post's comments are among its responses, the newest.
	ShownComments = 20
)

// Times are milliseconds since 1970, as clients get them. maxTime is the end of the year 9999.
const maxTime = 253_402_300_799_999

// Fields of what is answered stand in the order of their names in JSON: a map that is
// written as JSON has that order, too, see Serializer.

// Post is what the list says of a post.
type Post struct {
	// Author is the id of who wrote it.
	Author int64 `json:"author"`
	// Comments, Media and Reactions are how many it has: where Media is 0, and where
	// Comments and Reactions are, there is nothing more to ask for.
	Comments int   `json:"comments"`
	ID       int64 `json:"id"`
	Media    int   `json:"media"`
	// Pinned posts are among the notices.
	Pinned    bool   `json:"pinned"`
	Published int64  `json:"published"`
	Reactions int64  `json:"reactions"`
	Text      string `json:"text"`
	Title     string `json:"title"`
}

// Position is where in the list the post stands.
func (p *Post) Position() Position { return Position{p.Published, p.ID} }

// Position is a place in the list: posts are in descending order of their positions. That
// of a post does not change.
type Position struct{ Published, ID int64 }

// Page is an answer of the list. Next is the cursor of the next page, empty if there is none.
type Page struct {
	Next  string `json:"next"`
	Posts []Post `json:"posts"`
}

// Author is who wrote posts.
type Author struct {
	About string `json:"about"`
	ID    int64  `json:"id"`
	Name  string `json:"name"`
	// Photo is an https address, or empty.
	Photo string `json:"photo"`
	Role  string `json:"role"`
	Team  string `json:"team"`
}

// Medium is a picture or a film.
type Medium struct {
	// Alt says what is to be seen.
	Alt string `json:"alt"`
	// Height and Width are in pixels; 0 if they are not known.
	Height int `json:"height"`
	// Kind is image or video.
	Kind  string `json:"kind"`
	URL   string `json:"url"`
	Width int    `json:"width"`
}

// Reaction is how many reacted in one way, such as "like".
type Reaction struct {
	Count int64  `json:"count"`
	Kind  string `json:"kind"`
}

// Comment is what somebody wrote to a post.
type Comment struct {
	Author    string `json:"author"`
	Published int64  `json:"published"`
	Text      string `json:"text"`
}

// Part names one of the details of a post.
type Part string

// The parts: APIs 2, 3 and 4.
const (
	PartMedia     Part = "media"
	PartAuthor    Part = "author"
	PartResponses Part = "responses"
)

// Parts are all, in the order of a bundle.
func Parts() []Part { return []Part{PartMedia, PartAuthor, PartResponses} }

// Detail is one part of a post: a *Media, a *Profile or a *Responses.
type Detail = Value

// Media is a post's part of that name.
type Media struct {
	Media []Medium `json:"media"`
	Post  int64    `json:"post"`
}

// Profile is the author of a post.
type Profile struct {
	Author Author `json:"author"`
	Post   int64  `json:"post"`
}

// Responses are what others say to a post: the newest ShownComments comments, and all reactions.
type Responses struct {
	Comments  []Comment  `json:"comments"`
	Post      int64      `json:"post"`
	Reactions []Reaction `json:"reactions"`
}

// Notices are what is new to somebody.
type Notices struct {
	// Pinned are the newest of those posts, at most MaxPinned.
	Pinned []Notice `json:"pinned"`
	// Unread is how many posts are newer than what the client has seen, at most MaxUnread.
	Unread int `json:"unread"`
}

// Notice is a pinned post.
type Notice struct {
	Post      int64  `json:"post"`
	Published int64  `json:"published"`
	Title     string `json:"title"`
}

// Bounds of Notices: what an app has room for, and "99+".
const (
	MaxPinned = 3
	MaxUnread = 100
)

// Entry is a post with everything about it. The counts of its Post are Complete's business.
type Entry struct {
	Post
	Author    Author
	Media     []Medium
	Reactions []Reaction
	// Comments are the newest first.
	Comments []Comment
}

// Complete sets what the post says of the rest.
func (e *Entry) Complete() {
	e.Post.Author, e.Post.Media, e.Post.Comments, e.Post.Reactions = e.Author.ID, len(e.Media), len(e.Comments), 0
	for _, r := range e.Reactions {
		e.Post.Reactions += r.Count
	}
}

// problems collects what is wrong with an entry.
type problems []error

func (p *problems) add(err error) {
	if err != nil {
		*p = append(*p, err)
	}
}

// within wants a number from least to most.
func (p *problems) within(field string, n, least, most int64) {
	if n < least || n > most {
		p.add(fmt.Errorf("%s is %d: write %d to %d", field, n, least, most))
	}
}

// line wants one line of text; it may be empty if optional.
func (p *problems) line(field, value string, most int, optional bool) {
	if value == "" && optional {
		return
	}
	p.add(text.Check(field, value, most))
}

// Validate returns every problem of the entry, joined, each with what to write instead; nil
// if there is none.
func (e *Entry) Validate() error {
	var p problems
	p.within("id", e.ID, 1, dataset.MaxID)
	p.within("published", e.Published, 0, maxTime)
	p.line("title", e.Title, MaxTitle, false)
	p.add(checkText("text", e.Text, MaxText))
	e.Author.validate(&p)
	p.within("the number of media", int64(len(e.Media)), 0, MaxMedia)
	for i := range e.Media {
		e.Media[i].validate(&p, fmt.Sprintf("media[%d].", i))
	}
	p.within("the number of kinds of reactions", int64(len(e.Reactions)), 0, MaxReactions)
	kinds := map[string]bool{}
	for i, r := range e.Reactions {
		field := fmt.Sprintf("reactions[%d].", i)
		p.line(field+"kind", r.Kind, MaxName, false)
		p.within(field+"count", r.Count, 1, MaxCount)
		if kinds[r.Kind] {
			p.add(fmt.Errorf("%skind is %q, which is there already: write each once", field, r.Kind))
		}
		kinds[r.Kind] = true
	}
	p.within("the number of comments", int64(len(e.Comments)), 0, MaxComments)
	for i, c := range e.Comments {
		field := fmt.Sprintf("comments[%d].", i)
		p.line(field+"author", c.Author, MaxName, false)
		p.within(field+"published", c.Published, 0, maxTime)
		p.add(checkText(field+"text", c.Text, MaxText))
	}
	return errors.Join(p...)
}

func (a *Author) validate(p *problems) {
	p.within("author.id", a.ID, 1, dataset.MaxID)
	p.line("author.name", a.Name, MaxName, false)
	p.line("author.role", a.Role, MaxName, true)
	p.line("author.team", a.Team, MaxName, true)
	if a.About != "" {
		p.add(checkText("author.about", a.About, MaxAbout))
	}
	if a.Photo != "" {
		p.add(checkAddress("author.photo", a.Photo))
	}
}

func (m *Medium) validate(p *problems, field string) {
	if m.Kind != "image" && m.Kind != "video" {
		p.add(fmt.Errorf("%skind is %q: write image or video", field, m.Kind))
	}
	p.add(checkAddress(field+"url", m.URL))
	p.line(field+"alt", m.Alt, MaxTitle, true)
	p.within(field+"width", int64(m.Width), 0, MaxSide)
	p.within(field+"height", int64(m.Height), 0, MaxSide)
}

// checkText takes what people write to each other: several lines, and any character that is
// seen or joins others, as in emoji, but none that turns the direction of the text around it.
func checkText(field, value string, most int) error {
	switch {
	case value == "":
		return fmt.Errorf("%s is empty: write one", field)
	case len(value) > most:
		return fmt.Errorf("%s has %d bytes: write at most %d", field, len(value), most)
	case !utf8.ValidString(value):
		return fmt.Errorf("%s is not UTF-8: save the data as UTF-8", field)
	}
	for _, char := range value {
		if char != '\n' && (unicode.IsControl(char) || unicode.Is(unicode.Bidi_Control, char)) {
			return fmt.Errorf("%s has %U, which is not seen or turns the text around it: write it without", field, char)
		}
	}
	return nil
}

// checkAddress lets only addresses through from which a browser fetches what it shows.
func checkAddress(field, address string) error {
	if err := text.Check(field, address, MaxLink); err != nil {
		return err
	}
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" || parsed.User != nil || strings.ContainsAny(address, " \\\"'<>`") {
		return fmt.Errorf("%s is %q: write an https address such as https://example.com/1.jpg", field, address)
	}
	return nil
}
