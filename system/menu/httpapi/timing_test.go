package httpapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/system/menu"
	"loadstone/system/menu/httpapi"
)

// hanging is a database that answers nobody.
type hanging struct{ *memory }

func hang(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("waiting: %w", ctx.Err())
}

func (hanging) Lookup(ctx context.Context, _ int64) (menu.Page, error) { return menu.Page{}, hang(ctx) }
func (hanging) Create(ctx context.Context, _ *menu.Menu) (menu.Page, error) {
	return menu.Page{}, hang(ctx)
}

func (hanging) Replace(ctx context.Context, _ *menu.Menu, _ menu.Condition) (menu.Page, bool, error) {
	return menu.Page{}, false, hang(ctx)
}
func (hanging) Delete(ctx context.Context, _ int64, _ menu.Condition) (int64, error) {
	return 0, hang(ctx)
}

// Nobody waits longer than is said, whoever does not answer.
func TestWhoHangsIsLeft(t *testing.T) {
	t.Parallel()
	const read, told = 2 * time.Second, time.Second
	hangs := func(ctx context.Context, _ int64) error { return hang(ctx) }
	for name, c := range map[string]struct {
		change          func(*httpapi.Config)
		request, target string
		status          int
		took            time.Duration
	}{
		"a look-up":           {nil, "GET", "/menu/7", 503, read},
		"one of several":      {nil, "GET", "/menu?ids=1,2,3,4,5,6,7,8,9,10", 503, read},
		"a new menu":          {nil, "POST", "/menu", 503, menu.WriteTimeout},
		"a menu's correction": {nil, "PUT", "/menu/7", 503, menu.WriteTimeout},
		"a deletion":          {nil, "DELETE", "/menu/7", 503, menu.WriteTimeout},
		"caches before":       {func(c *httpapi.Config) { c.Changing = hangs }, "PUT", "/menu/7", 503, menu.WriteTimeout},
		"caches after": {func(c *httpapi.Config) {
			c.Store = c.Store.(hanging).memory
			c.Changed = func(ctx context.Context, _ int64, _ menu.Page, _ bool) error { return hang(ctx) }
		}, "PUT", "/menu/7", 200, told},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := httpapi.Config{
					Store: hanging{newMemory(t)}, Token: token, Ready: func() bool { return true },
					Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
				}
				if c.change != nil {
					c.change(&cfg)
				}
				api, err := httpapi.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				var ctx fasthttp.RequestCtx
				ctx.Request.Header.SetMethod(c.request)
				ctx.Request.SetRequestURI(c.target)
				ctx.Request.Header.Set("Authorization", "Bearer "+token)
				ctx.Request.Header.SetContentType("application/json")
				ctx.Request.SetBodyString(`{"dishes":[` + shiro + `]}`)
				began := time.Now()
				api.Handle(&ctx)
				if got := ctx.Response.StatusCode(); got != c.status {
					t.Errorf("got status %d, want %d: %s", got, c.status, ctx.Response.Body())
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
			})
		})
	}
}
