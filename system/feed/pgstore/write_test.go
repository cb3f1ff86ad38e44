package pgstore

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
)

// copies is a transaction that keeps what each COPY brought, in bytes of text.
type copies struct {
	pgx.Tx

	posts, text []int
}

func (*copies) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, nil
}

func (c *copies) CopyFrom(_ context.Context, table pgx.Identifier, _ []string, source pgx.CopyFromSource) (n int64, err error) {
	text := 0
	for ; source.Next(); n++ {
		row, err := source.Values()
		if err != nil {
			return n, err
		}
		for _, value := range row {
			s, _ := value.(string)
			text += len(s)
		}
	}
	switch table[1] {
	case "posts":
		c.posts = append(c.posts, int(n))
	case "comments":
		c.text = append(c.text, text)
	}
	return n, nil
}

// What a filling holds at a time is bounded in entries and in bytes, and let go behind it.
func TestFillIsBounded(t *testing.T) {
	t.Parallel()
	var large feedtest.Entries
	for id := range int64(9) {
		e := feedtest.Odd(id+1, id, 150)
		for i := range e.Comments {
			e.Comments[i].Text = strings.Repeat("x", feed.MaxText)
		}
		large = append(large, e)
	}
	var got copies
	if err := fill(t.Context(), &got, large, nil); err != nil {
		t.Fatal(err)
	}
	for _, text := range got.text {
		if most := maxText + 150*(feed.MaxText+feed.MaxName); text > most {
			t.Errorf("%d bytes were copied at a time, want at most %d", text, most)
		}
	}
	if len(got.text) != 5 { // two of 600 kB each, and the last
		t.Errorf("comments were copied %d times, want 5", len(got.text))
	}

	var small copies
	if err := fill(t.Context(), &small, feedtest.Generator(t, 1, 2*maxEntries), nil); err != nil {
		t.Fatal(err)
	}
	for _, n := range small.posts {
		if n > maxEntries {
			t.Errorf("%d posts were copied at a time", n)
		}
	}
	all := newRows()
	all.put(&large[0])
	if err := all.copyTo(t.Context(), &small); err != nil {
		t.Fatal(err)
	}
	if held := all.of["comments"]; len(held) != 0 || held[:1][0] != nil || all.text != 0 {
		t.Errorf("%d rows and %d bytes are held behind a copy, or what they said", len(held), all.text)
	}
}
