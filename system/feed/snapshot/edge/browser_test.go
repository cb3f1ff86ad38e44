package edge

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/valyala/fasthttp"

	"loadstone/block/browsertest"
	"loadstone/system/feed/snapshot"
)

// A browser keeps a version as the dictionary for the next one, says so, and decodes what it gets.
func TestBrowserDecodesDeltas(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.publish(snapshot.Options{}, texts("version 1")...)
	f.look(t.Context())
	url := browsertest.Serve(t, func(ctx *fasthttp.RequestCtx) {
		if err := f.Handle(ctx); err != nil { // the page, too
			ctx.SetContentType("text/html")
			ctx.SetBodyString("<!doctype html><title>feed</title><link rel=icon href=data:,>")
		}
	})
	tab := browsertest.Start(t).Open(t, browsertest.Screen{Width: 400, Height: 300})
	tab.Visit(url + "/")
	// It takes note of a dictionary when it has time: which version is the first to come as a delta is its affair.
	for n := 2; testutil.ToFloat64(f.metrics.answers.WithLabelValues(dcz)) < 2; n++ {
		want := f.site.Load().snapshot.Manifest.Whole
		got := tab.Eval(fmt.Sprintf(`fetch("/feed/whole/%s").then(r => r.arrayBuffer()).then(b => crypto.subtle.digest("SHA-256", b)).then(h => [...new Uint8Array(h)].map(x => x.toString(16).padStart(2, "0")).join(""))`, want.SHA256))
		if got != want.SHA256 {
			t.Fatalf("version %d: got %v, want %s", n-1, got, want.SHA256)
		}
		if n > 100 {
			t.Fatal("of a hundred versions none came as a delta")
		}
		f.publish(snapshot.Options{}, texts(fmt.Sprint("version ", n))...)
		f.look(t.Context())
	}
}
