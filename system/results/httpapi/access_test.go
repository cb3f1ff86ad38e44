package httpapi

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// Who is one connection too many is told so, and not that his request is no HTTP.
func TestOneConnectionTooManyHasABodyOfItsOwn(t *testing.T) {
	t.Parallel()
	if got := tooMany(); !strings.Contains(got, `{"error":{"code":"too_many_connections"`) {
		t.Errorf("got %s", got)
	}
}

func tooMany() string {
	var ctx fasthttp.RequestCtx
	answers.Unreadable(&ctx, fasthttp.StatusServiceUnavailable)
	return string(ctx.Response.Body())
}
