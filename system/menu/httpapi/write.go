package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"runtime"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"loadstone/block/dataset"
	"loadstone/block/route"
	"loadstone/system/menu"
)

// writing lets h be reached by those who may write, and counts what comes of it.
func (a *API) writing(h route.Handler) route.Handler {
	return func(ctx *fasthttp.RequestCtx) error {
		err := a.admit(ctx)
		if err == nil {
			err = h(ctx)
		}
		outcome := outcomeDone
		if failed, ok := errors.AsType[*route.Error](err); ok {
			outcome = outcomeRefused
			if answers[failed.Code].Status >= http.StatusInternalServerError {
				outcome = outcomeFailed
			}
		}
		a.metrics.writes[outcome].Inc()
		return err
	}
}

// admit says whether the request may change menus.
func (a *API) admit(ctx *fasthttp.RequestCtx) error {
	switch {
	case a.writer == nil:
		return notAllowed(ctx, codeReadOnly, "GET, HEAD")
	case a.cfg.Token == "":
		return &route.Error{Code: codeLocked}
	}
	scheme, token, _ := bytes.Cut(ctx.Request.Header.Peek(fasthttp.HeaderAuthorization), []byte(" "))
	given := sha256.Sum256(token) // so that the time does not depend on the length either
	if !strings.EqualFold(string(scheme), "Bearer") || subtle.ConstantTimeCompare(given[:], a.token[:]) != 1 {
		ctx.Response.Header.Set(fasthttp.HeaderWWWAuthenticate, "Bearer")
		return &route.Error{Code: codeUnauthorized}
	}
	return nil
}

func (a *API) post(ctx *fasthttp.RequestCtx) error {
	m, err := read(ctx, 0)
	if err != nil {
		return err
	}
	only, holds, err := condition(ctx)
	if err != nil || !holds || only.HasTag || only.Exists {
		return &route.Error{Code: codeCondition}
	}
	return a.store(ctx, &m, func() (menu.Page, bool, error) {
		page, err := a.writer.Create(context.Background(), &m)
		return page, true, err
	})
}

func (a *API) put(ctx *fasthttp.RequestCtx, id int64) error {
	m, err := read(ctx, id)
	if err != nil {
		return err
	}
	only, holds, err := condition(ctx)
	if err != nil {
		return err
	}
	return a.store(ctx, &m, func() (menu.Page, bool, error) {
		if !holds {
			return menu.Page{}, false, menu.ErrChanged
		}
		return a.writer.Replace(context.Background(), &m, only)
	})
}

// store writes a menu and answers with what is there then.
func (a *API) store(ctx *fasthttp.RequestCtx, m *menu.Menu, write func() (page menu.Page, created bool, err error)) error {
	page, created, err := write()
	if err != nil {
		return a.unwritten(ctx, m.ID, err)
	}
	defer runtime.KeepAlive(page.Owner)
	setVersion(ctx, page.Version)
	ctx.Response.Header.Set(fasthttp.HeaderETag, etag(page.Tag))
	route.JSON(ctx, http.StatusOK, page.Body)
	if created {
		ctx.Response.SetStatusCode(http.StatusCreated)
		ctx.Response.Header.Set(fasthttp.HeaderLocation, Path+"/"+strconv.FormatInt(m.ID, 10))
	}
	return nil
}

func (a *API) remove(ctx *fasthttp.RequestCtx, id int64) error {
	only, holds, err := condition(ctx)
	if err != nil {
		return err
	}
	version, err := int64(0), error(menu.ErrChanged)
	if holds {
		version, err = a.writer.Delete(context.Background(), id, only)
	}
	if err != nil {
		return a.unwritten(ctx, id, err)
	}
	setVersion(ctx, version)
	ctx.Response.Header.SetCanonical(headerCacheControl, []byte("no-store"))
	ctx.Response.SetStatusCode(http.StatusNoContent)
	return nil
}

// unwritten is the answer to a write that failed; where the menu is not what the writer takes
// it for, with what it is.
func (a *API) unwritten(ctx *fasthttp.RequestCtx, id int64, err error) error {
	if errors.Is(err, menu.ErrChanged) {
		within, cancel := a.bound()
		defer cancel()
		if page, err := a.lookup(within, id); err == nil {
			setVersion(ctx, page.Version)
			ctx.Response.Header.Set(fasthttp.HeaderETag, etag(page.Tag))
		}
	}
	return a.failed(err)
}

// body returns the JSON in a request's body.
func body(ctx *fasthttp.RequestCtx) ([]byte, error) {
	kind, parameters, err := mime.ParseMediaType(string(ctx.Request.Header.ContentType()))
	charset, given := parameters["charset"]
	if err != nil || kind != "application/json" || (given && !strings.EqualFold(charset, "utf-8")) || len(ctx.Request.Header.ContentEncoding()) > 0 {
		return nil, &route.Error{Code: codeMediaType}
	}
	if len(ctx.PostBody()) > menu.MaxBodyBytes {
		return nil, &route.Error{Code: route.BodyTooLarge}
	}
	return ctx.PostBody(), nil
}

// read returns the valid menu in a request's body. Its id is that of the path; for a new
// menu, whose path has none, it is 0 if the menu has none.
func read(ctx *fasthttp.RequestCtx, id int64) (m menu.Menu, err error) {
	body, err := body(ctx)
	if err != nil {
		return m, err
	}
	if m, err = menu.ParseJSON(body); err != nil {
		return m, because(of(menu.ErrInput), err)
	}
	if id != 0 {
		if m.ID != 0 && m.ID != id {
			return m, because(codeInvalid, fmt.Errorf("id is %d, and the path says %d: write the same, or leave the id out", m.ID, id))
		}
		m.ID = id
	}
	chosen := m.ID == 0
	if chosen {
		m.ID = dataset.MaxID // until there is one: the longest, as its size counts
	}
	if err := m.Validate(); err != nil {
		return m, because(codeInvalid, err)
	}
	if chosen {
		m.ID = 0
	}
	return m, nil
}

func etag(tag uint64) string { return fmt.Sprintf(`"%016x"`, tag) }

// condition reads If-Match and If-None-Match; holds is false for a tag that no menu has.
//
// A weak tag counts as the strong one of the same digits, unlike in RFC 9110, 13.1.1: proxies that
// compress make tags weak, and the digits name one body all the same.
func condition(ctx *fasthttp.RequestCtx) (only menu.Condition, holds bool, err error) {
	match := ctx.Request.Header.PeekAll(fasthttp.HeaderIfMatch)
	none := ctx.Request.Header.PeekAll(fasthttp.HeaderIfNoneMatch)
	switch {
	case len(match) == 0 && len(none) == 0:
		return only, true, nil
	case len(match) == 0 && len(none) == 1 && string(none[0]) == "*":
		return menu.Condition{Absent: true}, true, nil
	case len(match) != 1 || len(none) > 0:
		return only, false, &route.Error{Code: codeCondition}
	case string(match[0]) == "*":
		return menu.Condition{Exists: true}, true, nil
	}
	text := strings.TrimPrefix(string(match[0]), "W/")
	inner, quoted := strings.CutPrefix(text, `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	if !quoted || !closed || strings.ContainsAny(inner, `",`) {
		return only, false, &route.Error{Code: codeCondition}
	}
	tag, err := strconv.ParseUint(inner, 16, 64)
	if err != nil || etag(tag) != text {
		return only, false, nil //nolint:nilerr // a tag, and none of ours
	}
	return menu.Condition{Tag: tag, HasTag: true}, true, nil
}
