package feed

import (
	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/versioned"
)

// Cache keeps what was read of a store for as long as the store has not changed.
type Cache = versioned.Cache[Question, any]

// Question is what a store was asked.
type Question struct {
	what    string // page, notices, or a Part
	a, b, c int64  // a position and a limit, a time, or a post
}

// NewCache returns a cache for a store that is a versioned.Original, of about so many bytes;
// nil if it is none, or for 0 bytes.
func NewCache(store Store, bytes int64, to prometheus.Registerer) (*Cache, error) {
	original, ok := store.(versioned.Original)
	if !ok || bytes == 0 {
		return nil, nil
	}
	return versioned.New[Question, any](original, bytes, "feed", to)
}

// read answers a question from the cache, or by a query.
func read[T any](v View, q Question, bytes func(T) int, query func() (T, error)) (T, error) {
	if found, ok := v.cached.Find(q); ok {
		return found.(T), nil
	}
	answer, err := query()
	if err == nil {
		v.cached.Keep(q, answer, questionBytes+bytes(answer))
	}
	return answer, err
}

// What questions and answers take in memory, headers of their strings and slices included.

const questionBytes = 64

func postsBytes(posts []Post) int {
	n := 24
	for i := range posts {
		n += 96 + len(posts[i].Title) + len(posts[i].Text)
	}
	return n
}

func noticesBytes(notices Notices) int {
	n := 32
	for i := range notices.Pinned {
		n += 32 + len(notices.Pinned[i].Title)
	}
	return n
}

func detailBytes(d Detail) int {
	n := questionBytes + 64
	switch d := d.(type) {
	case *Media:
		for i := range d.Media {
			n += 64 + len(d.Media[i].Alt) + len(d.Media[i].Kind) + len(d.Media[i].URL)
		}
	case *Profile:
		n += 88 + len(d.Author.About) + len(d.Author.Name) + len(d.Author.Photo) + len(d.Author.Role) + len(d.Author.Team)
	case *Responses:
		for i := range d.Comments {
			n += 40 + len(d.Comments[i].Author) + len(d.Comments[i].Text)
		}
		for i := range d.Reactions {
			n += 24 + len(d.Reactions[i].Kind)
		}
	}
	return n
}
