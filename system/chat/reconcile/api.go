package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"loadstone/block/pause"
	"loadstone/system/chat"
	"loadstone/system/chat/reconcile/ledger"
)

// guest is somebody with a token.
type guest struct {
	r    *reconciler
	name string

	mu    sync.Mutex // held while another token is asked for: who needs it waits
	token string
	old   string // the one to renew; empty if there is none
}

// get returns a token, and asks for one if there is none.
func (g *guest) get(ctx context.Context) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token != "" {
		return g.token, nil
	}
	body, err := json.Marshal(map[string]string{"name": g.name})
	if err != nil {
		return "", err
	}
	var answer struct {
		Token string `json:"token"`
	}
	if err := g.r.ask(ctx, question{path: "/api/guest", token: g.old, body: string(body)}, &answer); err != nil {
		return "", err
	}
	g.token = answer.Token
	return g.token, nil
}

// renew says that a token is good no longer.
func (g *guest) renew(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token == token {
		g.token, g.old = "", token
	}
}

// question is a request to the chat; without a body it is a GET.
type question struct{ path, token, body string }

// ask sends a request, and reads an answer of JSON.
func (r *reconciler) ask(ctx context.Context, q question, answer any) (err error) {
	method := http.MethodGet
	if q.body != "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, r.cfg.URL+q.path, strings.NewReader(q.body)) //nolint:gosec // the operator says where the chat is
	if err != nil {
		return err
	}
	if q.token != "" {
		request.Header.Set("Authorization", "Bearer "+q.token)
	}
	response, err := r.client.Do(request) //nolint:gosec // as above
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	const longest = 1 << 20
	text, err := io.ReadAll(io.LimitReader(response.Body, longest))
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: status %d: %.200s", method, q.path, response.StatusCode, text)
	}
	return json.Unmarshal(text, answer)
}

// page is a part of a log.
type page struct {
	Epoch    string         `json:"epoch"`
	Messages []chat.Message `json:"messages"`
	Next     uint64         `json:"next"`
}

// length is the offset of the next message of a stream.
func (r *reconciler) length(ctx context.Context, stream int64) (uint64, error) {
	var p page
	err := r.ask(ctx, question{path: fmt.Sprintf("/api/streams/%d/messages?before=0", stream)}, &p)
	return p.Next, err
}

// check reads the log of a stream, from its end to where the first viewer began, and compares it with
// the books. What is before due was due to all.
func (r *reconciler) check(ctx context.Context, stream int64, due uint64) error {
	from, before := r.books.Begin(stream), uint64(1<<63)
	var pages [][]chat.Message
	var epoch string
	for {
		var p page
		for {
			err := r.ask(ctx, question{path: fmt.Sprintf("/api/streams/%d/messages?before=%d", stream, before)}, &p)
			if err == nil {
				break
			}
			if !pause.For(ctx, firstPause) { // it may just have been killed
				return err
			}
		}
		epoch = p.Epoch
		if len(p.Messages) == 0 {
			break
		}
		pages = append(pages, p.Messages)
		if before = p.Messages[0].Offset; before <= from {
			break
		}
	}
	slices.Reverse(pages)
	log := slices.Concat(pages...)
	log = slices.DeleteFunc(log, func(m chat.Message) bool { return m.Offset < from })
	r.books.Check(stream, ledger.Log{Epoch: epoch, From: from, Due: due, Analysed: r.cfg.Analysed, Messages: slices.Values(log)})
	if r.cfg.Kept != nil {
		return r.keeps(ctx, stream, log)
	}
	return nil
}
