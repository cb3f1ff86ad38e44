package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"loadstone/block/dataset"
	"loadstone/block/dictionary/dcz"
	"loadstone/block/route"
	"loadstone/system/menu"
)

// Path is where menus are; a single one is at Path/{id}.
const Path = "/menu"

// MaxIDs is the most menus that one request may ask for.
const MaxIDs = 100

// VersionHeader is the header with Page.Version.
const VersionHeader = "X-Menu-Version"

const (
	// lookupTimeout bounds what a request waits for a database: longer than one takes that
	// is busy, and shorter than a guest waits. What is no database is a file here.
	lookupTimeout = 2 * time.Second
	// sideBySide is how many look-ups of one request are under way at a time: with a
	// millisecond each, MaxIDs take about a dozen.
	sideBySide = 8
)

var (
	headerCacheControl = []byte(fasthttp.HeaderCacheControl)
	headerVersion      = []byte(VersionHeader)
	cacheControl       = []byte("public, no-cache")
)

// bound is the context of look-ups. A published file keeps nobody waiting, and a
// timer would be a good part of what the rest costs.
func (a *API) bound() (context.Context, context.CancelFunc) {
	if a.writer == nil {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), lookupTimeout)
}

// get answers for Path/{id}.
func (a *API) get(ctx *fasthttp.RequestCtx, id int64) error {
	choice := a.texts.Choose(ctx)
	if stored, ok := a.cfg.Store.(menu.Compressed); ok && choice.With != nil {
		frame, err := stored.Compressed(id)
		if err != nil {
			return a.failed(err)
		}
		if frame.Dictionary == choice.With {
			setVersion(ctx, 0)
			answerFrame(ctx, choice, frame.Data, frame.Tag)
			return nil
		}
	}
	if stored, ok := a.cfg.Store.(menu.Appending); ok && choice.With == nil {
		return a.appended(ctx, choice, stored, id)
	}
	return a.page(ctx, id, func(page *menu.Page) error {
		if choice.With == nil {
			choice.Describe(ctx)
			answer(ctx, page.Body, page.Tag)
			return nil
		}
		frame, err := choice.With.Compress(nil, page.Body)
		if err == nil {
			answerFrame(ctx, choice, frame, page.Tag)
		}
		return err
	})
}

// appended answers with a menu that goes straight into the answer's buffer, which the connection keeps.
func (a *API) appended(ctx *fasthttp.RequestCtx, choice dcz.Choice, from menu.Appending, id int64) error {
	page, err := from.Append(ctx.Response.SwapBody(nil), id)
	if err != nil {
		ctx.Response.SwapBody(page.Body)
		return a.failed(err)
	}
	setVersion(ctx, page.Version)
	choice.Describe(ctx)
	ctx.Response.Header.SetCanonical(headerCacheControl, cacheControl)
	if route.NotModified(ctx, page.Tag) {
		ctx.Response.SwapBody(page.Body[:0])
		return nil
	}
	ctx.Response.SwapBody(page.Body)
	route.DescribeJSON(ctx)
	return nil
}

func answerFrame(ctx *fasthttp.RequestCtx, choice dcz.Choice, frame []byte, tag uint64) {
	choice.Write(ctx, frame, tag)
	ctx.Response.Header.SetCanonical(headerCacheControl, cacheControl)
}

// metadata answers for Path/{id}/metadata.
func (a *API) metadata(ctx *fasthttp.RequestCtx, id int64) error {
	return a.page(ctx, id, func(page *menu.Page) error {
		body, err := describe(id, page)
		if err == nil {
			answer(ctx, body, menu.Tag(body))
		}
		return err
	})
}

// lookup is the store's.
func (a *API) lookup(within context.Context, id int64) (menu.Page, error) {
	a.metrics.storeLookups.Inc()
	return a.cfg.Store.Lookup(within, id)
}

// page has show answer with a menu's page.
func (a *API) page(ctx *fasthttp.RequestCtx, id int64, show func(*menu.Page) error) error {
	within, cancel := a.bound()
	defer cancel()
	page, err := a.lookup(within, id)
	if err != nil {
		if page.Version > 0 {
			setVersion(ctx, page.Version) // of a menu that was deleted
		}
		return a.failed(err)
	}
	defer runtime.KeepAlive(page.Owner)
	if err := show(&page); err != nil {
		return a.failed(err)
	}
	setVersion(ctx, page.Version)
	return nil
}

func setVersion(ctx *fasthttp.RequestCtx, version int64) {
	var digits [20]byte
	ctx.Response.Header.SetCanonical(headerVersion, strconv.AppendInt(digits[:0], version, 10))
}

// answer answers with the body, or that the client has it.
func answer(ctx *fasthttp.RequestCtx, body []byte, tag uint64) {
	known := route.NotModified(ctx, tag)
	ctx.Response.Header.SetCanonical(headerCacheControl, cacheControl)
	if !known {
		route.SetJSON(ctx, body) // copies
	}
}

// description is what a client can know of a menu without having it.
type description struct {
	ID       int64   `json:"id"`
	Version  int64   `json:"version"`
	ETag     string  `json:"etag"`
	Bytes    int     `json:"bytes"` // of the menu's JSON
	Dishes   int     `json:"dishes"`
	Link     *string `json:"link"`
	Currency string  `json:"currency"`
}

func describe(id int64, page *menu.Page) ([]byte, error) {
	m, err := menu.ParseStored(id, page.Body)
	if err != nil {
		return nil, err
	}
	d := description{
		ID: id, Version: page.Version, ETag: etag(page.Tag), Bytes: len(page.Body),
		Dishes: len(m.Dishes), Currency: m.Currency,
	}
	if m.Link != "" {
		d.Link = &m.Link
	}
	return json.Marshal(d)
}

// many answers for Path?ids=: {"menus":[...],"missing":[...]}, both in the order of the ids,
// each once. Its size is bounded by MaxIDs menus of menu.MaxBodyBytes.
func (a *API) many(ctx *fasthttp.RequestCtx) error {
	ids, err := parseIDs(ctx.QueryArgs().PeekMulti("ids"))
	if err != nil {
		return err
	}
	within, cancel := a.bound()
	defer cancel()
	pages := make([]menu.Page, len(ids))
	found := make([]bool, len(ids))
	group, within := errgroup.WithContext(within)
	group.SetLimit(sideBySide)
	for i, id := range ids {
		group.Go(func() (err error) {
			if pages[i], err = a.lookup(within, id); errors.Is(err, menu.ErrNotFound) {
				return nil
			}
			found[i] = err == nil
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return a.failed(err)
	}
	menus, missing := []byte(`{"menus":[`), []byte(`],"missing":[`)
	for i, id := range ids {
		if found[i] {
			menus = append(append(menus, pages[i].Body...), ',')
		} else {
			missing = append(strconv.AppendInt(missing, id, 10), ',')
		}
	}
	runtime.KeepAlive(pages)
	body := append(bytes.TrimSuffix(menus, []byte(",")), bytes.TrimSuffix(missing, []byte(","))...)
	body = append(body, "]}"...)
	answer(ctx, body, menu.Tag(body))
	return nil
}

func parseIDs(lists [][]byte) ([]int64, error) {
	if len(lists) != 1 || len(lists[0]) == 0 || bytes.Count(lists[0], []byte(",")) >= MaxIDs {
		return nil, &route.Error{Code: codeIDs}
	}
	ids := make([]int64, 0, MaxIDs)
	seen := make(map[int64]bool, MaxIDs)
	for text := range bytes.SplitSeq(lists[0], []byte(",")) {
		id, ok := dataset.ParseID(text)
		if !ok {
			return nil, because(of(menu.ErrMalformedID), menu.Malformed(text))
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}
