package feed

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"loadstone/block/dataset"
	"loadstone/block/random"
)

// DefaultCount is the number of posts of a generated data set unless asked otherwise.
const DefaultCount = 10_000

// generatorVersion is part of the fingerprint: raise it when the same seed gives other posts.
const generatorVersion = 1

// madeUp begins the fingerprint of what a Generator makes.
const madeUp = "feed generator "

// MadeUp reports whether the posts of a data set are a Generator's.
func MadeUp(meta dataset.Meta) bool { return strings.HasPrefix(meta.Fingerprint, madeUp) }

const (
	// MaxGenerated keeps the newest post before the year 2026.
	MaxGenerated = 1_000_000
	// firstPublished is the beginning of 2024; a post follows each minute.
	firstPublished = 1_704_067_200_000
	minute         = 60_000

	inventedAuthors = 300
	pinnedEvery     = 97
)

// Generator is the source of an invented data set: the posts 1 to count, the newest last.
//
// Every post is a function of the seed and its id alone, in integer arithmetic: any can be
// computed without the others, and every machine gives the same.
type Generator struct {
	seed  uint64
	count int64
}

// NewGenerator returns the data set of the seed with posts 1 to count.
func NewGenerator(seed uint64, count int64) (*Generator, error) {
	if count < 1 || count > MaxGenerated {
		return nil, fmt.Errorf("generate %d posts: write a number from 1 to %d", count, MaxGenerated)
	}
	return &Generator{seed, count}, nil
}

// Meta describes the data set.
func (g *Generator) Meta() dataset.Meta {
	return dataset.Meta{
		Origin:      fmt.Sprintf("seed %d, %d posts", g.seed, g.count),
		Fingerprint: fmt.Sprintf(madeUp+"%d, seed %d, count %d", generatorVersion, g.seed, g.count),
		Count:       g.count,
	}
}

// All yields the posts in ascending order of id.
func (g *Generator) All(ctx context.Context) iter.Seq2[Entry, error] {
	return dataset.Generate(ctx, g.count, g.Entry)
}

// Entry computes the post with the id.
func (g *Generator) Entry(id int64) Entry {
	draw := random.New(g.seed, id)
	e := Entry{Post: Post{ID: id, Published: firstPublished + id*minute + int64(draw.Below(minute)), Pinned: id%pinnedEvery == 0}}
	e.Author = g.author(1 + int64(draw.Popular(inventedAuthors)))
	place := pick(&draw, places)
	e.Title = pick(&draw, starts) + " " + pick(&draw, topics) + " in " + place
	e.Text = sentences(&draw, 2+draw.Below(5))
	if id%Reading != 0 {
		e.Media = make([]Medium, 1+draw.Below(3))
	}
	for i := range e.Media {
		width := 800 + 200*draw.Below(5)
		e.Media[i] = Medium{
			Kind: "image", URL: fmt.Sprintf("https://media.example/%d/%d.jpg", id, i+1),
			Alt: "Colleagues in " + place, Width: width, Height: width * 3 / 4,
		}
	}
	e.Reactions = make([]Reaction, 1+draw.Below(len(kinds)))
	for i := range e.Reactions {
		e.Reactions[i] = Reaction{Kind: kinds[i], Count: 1 + int64(draw.Popular(400))}
	}
	e.Comments = make([]Comment, draw.Popular(12))
	for i := range e.Comments {
		later := int64(len(e.Comments)-i) * minute
		e.Comments[i] = Comment{Author: g.name(1 + int64(draw.Below(inventedAuthors))), Published: e.Published + later, Text: sentences(&draw, 1)}
	}
	e.Complete()
	return e
}

// name is the name of an invented author.
func (g *Generator) name(id int64) string {
	draw := random.New(g.seed, -id)
	return pick(&draw, given) + " " + pick(&draw, families)
}

// author is an invented author.
func (g *Generator) author(id int64) Author {
	draw := random.New(g.seed, -inventedAuthors-id)
	return Author{
		ID: id, Name: g.name(id), Role: pick(&draw, roles), Team: pick(&draw, teams),
		About: sentences(&draw, 2), Photo: fmt.Sprintf("https://media.example/people/%d.jpg", id),
	}
}

func pick(draw *random.Stream, words []string) string { return words[draw.Below(len(words))] }

// sentences are as many, of five phrases each.
func sentences(draw *random.Stream, count int) string {
	var b strings.Builder
	for i := range count {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(pick(draw, openings))
		b.WriteString(" the ")
		b.WriteString(pick(draw, teams))
		b.WriteString(" team ")
		b.WriteString(pick(draw, verbs))
		b.WriteString(" the ")
		b.WriteString(pick(draw, topics))
		b.WriteString(" in ")
		b.WriteString(pick(draw, places))
		b.WriteByte('.')
	}
	return b.String()
}

// kinds of reactions, in the order in which posts get them.
var kinds = []string{"like", "love", "clap", "insight", "laugh"}

var (
	starts   = []string{"News of the", "A look behind the", "Five years of the", "Questions about the", "Welcome to the", "Thank you for the", "The plan for the", "First days of the"}
	topics   = []string{"summer school", "new canteen", "solar roof", "open day", "library", "marathon", "training week", "bicycle park", "choir", "safety drill", "hackathon", "garden", "mentoring", "night shift", "warehouse"}
	places   = []string{"Lyon", "Nairobi", "Lima", "Tromsø", "Kraków", "Addis Ababa", "Osaka", "Porto", "Leeds", "Montréal", "Zürich", "Pune"}
	openings = []string{"Since Monday", "This week", "After a long pause", "With many helpers", "To our surprise", "In the coming month", "Together with our guests", "For the third time"}
	verbs    = []string{"opened", "finished", "has measured", "is going to show", "is asking for ideas about", "won a prize for", "has moved", "is looking for helpers with", "explains"}
	teams    = []string{"logistics", "design", "research", "kitchen", "sales", "support", "finance", "garden", "data", "training"}
	roles    = []string{"Engineer", "Nurse", "Driver", "Teacher", "Analyst", "Cook", "Team lead", "Librarian", "Apprentice"}
	given    = []string{"Amina", "Björn", "Chidi", "Dana", "Elif", "Fatou", "Goran", "Hana", "Ivo", "Jelena", "Kofi", "Lucía", "Marek", "Noor", "Olga", "Pedro"}
	families = []string{"Abebe", "Bauer", "Castro", "Diallo", "Eriksen", "Ferrari", "García", "Haddad", "Ito", "Jansen", "Kowalski", "Lopes", "Moreau", "Nguyen", "Okafor", "Petrović"}
)
