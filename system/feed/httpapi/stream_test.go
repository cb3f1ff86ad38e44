package httpapi

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
)

// hanging is a store whose responses come when nobody waits for them any more.
type hanging struct {
	*feedtest.Memory

	given chan error
}

func (s hanging) Details(ctx context.Context, part feed.Part, posts []int64) (feed.Details, error) {
	if part != feed.PartResponses {
		return s.Memory.Details(ctx, part, posts)
	}
	<-ctx.Done()
	s.given <- ctx.Err()
	return nil, ctx.Err()
}

// gone is a client that goes after some bytes.
type gone struct{ after int }

func (g *gone) Write(p []byte) (int, error) {
	if g.after -= len(p); g.after < 0 {
		return 0, errors.New("gone")
	}
	return len(p), nil
}

// When a client goes, what is still being read for it is given up at once, and is no failure of the store.
func TestStreamOfClientThatGoes(t *testing.T) {
	t.Parallel()
	store := hanging{&feedtest.Memory{}, make(chan error, 1)}
	if _, err := store.Fill(t.Context(), feedtest.Generator(t, 1, MaxBundle), nil); err != nil {
		t.Fatal(err)
	}
	a, err := New(Config{
		Reader: &feed.Reader{Store: store}, Serializer: feed.Append, Ready: func() bool { return true },
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for id := range int64(MaxBundle) {
		ids = append(ids, id+1)
	}
	for _, after := range []int{0, 1000, 5000} {
		began := time.Now()
		a.writeLines(bufio.NewWriterSize(&gone{after}, 16), ids)
		if err := <-store.given; !errors.Is(err, context.Canceled) {
			t.Errorf("gone after %d bytes: reading ended with %v in %v", after, err, time.Since(began))
		}
	}
}

// Of whatever a client writes for ids, only distinct ones in their shortest form are read, at most MaxBundle.
func FuzzParsePosts(f *testing.F) {
	for _, text := range []string{"1", "1,2,3", "", ",", "01", "1,1", "-1", "999999999999999999", "1000000000000000000", "1e9", "٣", strings.Repeat("1,", 60)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ids, ok := parsePosts([][]byte{[]byte(text)})
		var again []string
		seen := map[int64]bool{}
		for _, id := range ids {
			again = append(again, strconv.FormatInt(id, 10))
			seen[id] = true
		}
		if ok && (strings.Join(again, ",") != text || len(seen) != len(ids) || len(ids) == 0 || len(ids) > MaxBundle || seen[0]) {
			t.Errorf("%q was read as %v", text, ids)
		}
		if _, err := strconv.ParseUint(text, 10, 32); err == nil && text[0] != '0' && !ok {
			t.Errorf("%q was refused", text)
		}
	})
}
