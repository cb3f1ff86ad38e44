package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
	"loadstone/system/menu"
)

// noDocuments is a store that has none.
type noDocuments struct{}

func (noDocuments) Document(context.Context, menu.Kind, int64) (menu.Document, error) {
	return menu.Document{}, menu.ErrNotFound
}

func (noDocuments) SetDocument(context.Context, *menu.Document, menu.Condition) error {
	return menu.ErrUnavailable
}

// nowFresh is how long an answer about now may be kept by caches: that long somebody may
// still order what is sold out.
const nowFresh = 5 * time.Second

// availability answers for Path/{id}/availability.
func (a *API) availability(ctx *fasthttp.RequestCtx, id int64) error {
	within, cancel := a.bound()
	defer cancel()
	d, err := a.overlay(within, id)
	if err != nil {
		return err
	}
	answer(ctx, d.Body, d.Tag)
	return nil
}

// overlay is the document of a menu's availability.
func (a *API) overlay(within context.Context, id int64) (menu.Document, error) {
	d, err := a.overlays.Document(within, menu.Availability, id)
	if errors.Is(err, menu.ErrNotFound) {
		return d, &route.Error{Code: codeNoOverlay, Err: err}
	}
	if err != nil {
		return d, a.failed(err)
	}
	return d, nil
}

// known is what is known of a menu's availability, if anything is.
func (a *API) known(within context.Context, id int64) (o *menu.Overlay, tag uint64, err error) {
	if o, tag, err = menu.FindOverlay(within, a.overlays, id); err != nil {
		return nil, 0, a.failed(err)
	}
	return o, tag, nil
}

// served is what of a menu is served at a time.
type served struct {
	ID        int64      `json:"id"`
	Served    []string   `json:"served"` // sections, in the menu's order
	NotServed []string   `json:"notServed"`
	SoldOut   []string   `json:"soldOut"` // dishes
	Changes   *time.Time `json:"changes"` // when, by itself, within a week
}

// now answers for Path/{id}/now.
func (a *API) now(ctx *fasthttp.RequestCtx, id int64) error {
	within, cancel := a.bound()
	defer cancel()
	m, err := a.menu(within, id)
	if err != nil {
		return err
	}
	o, _, err := a.known(within, id)
	if err != nil {
		return err
	}
	at := time.Now()
	now := o.At(at)
	s := served{ID: id, Served: []string{}, NotServed: []string{}, SoldOut: []string{}}
	for i := range m.Dishes {
		d := &m.Dishes[i]
		to := &s.NotServed
		if now.Serves(d.Type) {
			to = &s.Served
		}
		if !slices.Contains(*to, d.Type) {
			*to = append(*to, d.Type)
		}
		if now.SoldOut(d.Name) && !slices.Contains(s.SoldOut, d.Name) {
			s.SoldOut = append(s.SoldOut, d.Name)
		}
	}
	fresh := nowFresh
	if !now.Changes.IsZero() {
		changes := now.Changes.UTC()
		s.Changes, fresh = &changes, min(fresh, changes.Sub(at))
	}
	text, err := json.Marshal(s)
	if err != nil {
		return a.failed(err)
	}
	answer(ctx, text, menu.Tag(text))
	ctx.Response.Header.SetCanonical(headerCacheControl, fmt.Appendf(nil, "public, max-age=%d", int(fresh.Seconds())))
	return nil
}

// menu looks a menu up and reads it.
func (a *API) menu(within context.Context, id int64) (m menu.Menu, err error) {
	page, err := a.lookup(within, id)
	if err != nil {
		return m, a.failed(err)
	}
	defer runtime.KeepAlive(page.Owner)
	if m, err = menu.ParseStored(id, page.Body); err != nil {
		return m, a.failed(err)
	}
	return m, nil
}

func (a *API) putAvailability(ctx *fasthttp.RequestCtx, id int64) error {
	text, err := body(ctx)
	if err != nil {
		return err
	}
	o, err := menu.ParseOverlay(text)
	if err != nil {
		return because(of(menu.ErrInput), err)
	}
	only, holds, err := condition(ctx)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(context.Background(), menu.WriteTimeout)
	defer cancel()
	if _, err := a.menu(within, id); err != nil {
		return err
	}
	d := overlayOf(id, o.JSON())
	return a.overlaid(ctx, &d, a.setOverlay(within, &d, only, holds))
}

// overlayOf is an availability as the API stores it; nil to remove it.
func overlayOf(id int64, body []byte) menu.Document {
	return menu.Document{Kind: menu.Availability, ID: id, Editor: menu.EditorAPI, Body: body}
}

// setOverlay stores an availability if the condition and holds, see condition, say so.
func (a *API) setOverlay(within context.Context, d *menu.Document, only menu.Condition, holds bool) error {
	if !holds {
		return menu.ErrChanged
	}
	return a.overlays.SetDocument(within, d, only)
}

// overlaid answers with an availability that was stored, or why it was not.
func (a *API) overlaid(ctx *fasthttp.RequestCtx, d *menu.Document, err error) error {
	if errors.Is(err, menu.ErrChanged) {
		within, cancel := a.bound()
		defer cancel()
		if there, err := a.overlays.Document(within, d.Kind, d.ID); err == nil {
			ctx.Response.Header.Set(fasthttp.HeaderETag, etag(there.Tag))
		}
		return &route.Error{Code: of(menu.ErrChanged), Err: err,
			Text: "the availability is not as the condition says; the header ETag tells what is there now, if anything is"}
	}
	if err != nil {
		return a.failed(err)
	}
	ctx.Response.Header.Set(fasthttp.HeaderETag, etag(d.Tag))
	route.JSON(ctx, http.StatusOK, d.Body)
	return nil
}

func (a *API) removeAvailability(ctx *fasthttp.RequestCtx, id int64) error {
	only, holds, err := condition(ctx)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(context.Background(), menu.WriteTimeout)
	defer cancel()
	if _, err := a.overlay(within, id); err != nil {
		return err
	}
	d := overlayOf(id, nil)
	if err := a.setOverlay(within, &d, only, holds); err != nil {
		return a.overlaid(ctx, &d, err)
	}
	ctx.Response.Header.SetCanonical(headerCacheControl, []byte("no-store"))
	ctx.Response.SetStatusCode(http.StatusNoContent)
	return nil
}

func (a *API) markSoldOut(ctx *fasthttp.RequestCtx, id int64) error {
	text, err := body(ctx)
	if err != nil {
		return err
	}
	dish, out, err := menu.ParseSoldOut(text)
	if err != nil {
		return because(of(menu.ErrInput), err)
	}
	only, holds, err := condition(ctx)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(context.Background(), menu.WriteTimeout)
	defer cancel()
	m, err := a.menu(within, id)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(m.Dishes, func(d menu.Dish) bool { return strings.EqualFold(d.Name, dish.Dish) })
	if i >= 0 {
		dish.Dish = m.Dishes[i].Name
	} else if out {
		return because(codeInvalid, fmt.Errorf("dish is %q, which the menu does not have: write its name as it stands there", dish.Dish))
	}
	d := overlayOf(id, nil)
	err = menu.ErrChanged
	if holds {
		err = menu.ChangeOverlay(within, a.overlays, &d, only, menu.SoldOutChange(dish, out))
	}
	if errors.Is(err, menu.ErrInput) && !errors.Is(err, menu.ErrCorrupt) { // too much is sold out
		return because(of(menu.ErrInput), err)
	}
	return a.overlaid(ctx, &d, err)
}
