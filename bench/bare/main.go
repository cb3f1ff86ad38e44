// Command bare serves what another server answers, from memory and with nothing but
// fasthttp: what an HTTP server in Go costs at least for these answers. The experiment
// system/menu/experiments/serving.yaml compares servers of menus with it.
//
//	bare ADDRESS ORIGIN PATH COUNT
//
// It asks ORIGIN (http://HOST:PORT) for PATH/1 to PATH/COUNT, and then answers these paths
// on ADDRESS, with the same bodies and the same headers but for the date. Anything else is
// 404, and 503 until all answers are there.
//
// It is a program of the bench and no part of Loadstone.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:]) //nolint:forbidigo // a program of its own
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bare:", err) // nobody left to tell
		os.Exit(1)                                   //nolint:forbidigo // a program of its own
	}
}

// answer is one that the origin gave: headers as lines, without those that every server
// writes itself, and the body.
type answer struct {
	contentType []byte
	headers     [][2][]byte
	body        []byte
}

// answers are by id - 1.
type answers []answer

func run(ctx context.Context, args []string) error {
	if len(args) != 4 {
		return errors.New("usage: bare ADDRESS ORIGIN PATH COUNT")
	}
	address, origin, path := args[0], args[1], strings.TrimSuffix(args[2], "/")+"/"
	count, err := strconv.Atoi(args[3])
	if err != nil || count < 1 || count > 10_000_000 {
		return fmt.Errorf("%.20q is no number of answers; write one from 1 to 10,000,000", args[3])
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	var ready atomic.Pointer[answers]
	server := &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) { ready.Load().serve(ctx, path) },
		// As the servers that it stands beside.
		ReadTimeout: 10 * time.Second, IdleTimeout: 75 * time.Second, NoDefaultServerHeader: true,
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return server.Serve(listener) })
	g.Go(func() error {
		all, err := fetch(ctx, origin+path, count)
		if err == nil {
			ready.Store(&all)
			<-ctx.Done()
		}
		err = errors.Join(err, server.Shutdown())
		_ = listener.Close() // a server that was shut down before it began to serve would serve on
		return err
	})
	return g.Wait()
}

// fetchers is how many requests for answers are under way at one time.
const fetchers = 8

// fetch asks the origin for all answers.
func fetch(ctx context.Context, base string, count int) (answers, error) {
	client := &fasthttp.Client{ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	all := make(answers, count)
	g, ctx := errgroup.WithContext(ctx)
	for worker := range fetchers {
		g.Go(func() error {
			for i := worker; i < count && ctx.Err() == nil; i += fetchers {
				if err := all[i].fetch(client, base+strconv.Itoa(i+1)); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	return all, g.Wait()
}

func (a *answer) fetch(client *fasthttp.Client, url string) error {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(url)
	if err := client.Do(req, resp); err != nil {
		return fmt.Errorf("ask for %s: %w", url, err)
	}
	if resp.StatusCode() != fasthttp.StatusOK {
		return fmt.Errorf("ask for %s: status %d, want 200", url, resp.StatusCode())
	}
	a.body, a.contentType = bytes.Clone(resp.Body()), bytes.Clone(resp.Header.ContentType())
	for key, value := range resp.Header.All() {
		switch string(key) {
		case fasthttp.HeaderDate, fasthttp.HeaderContentLength, fasthttp.HeaderContentType, fasthttp.HeaderConnection:
		default:
			a.headers = append(a.headers, [2][]byte{bytes.Clone(key), bytes.Clone(value)})
		}
	}
	return nil
}

// serve answers one request; all is nil until all answers are there.
func (all *answers) serve(ctx *fasthttp.RequestCtx, path string) {
	id, ok := strings.CutPrefix(string(ctx.Path()), path)
	n, err := strconv.Atoi(id)
	switch {
	case all == nil:
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
	case !ok || err != nil || n < 1 || n > len(*all):
		ctx.SetStatusCode(fasthttp.StatusNotFound)
	default:
		a := &(*all)[n-1]
		h := &ctx.Response.Header
		h.SetContentTypeBytes(a.contentType)
		for _, header := range a.headers {
			h.SetCanonical(header[0], header[1])
		}
		ctx.Response.SetBodyRaw(a.body)
	}
}
