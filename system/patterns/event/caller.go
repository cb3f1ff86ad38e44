package event

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

// maxCalls bounds the connections to the log service, and with them the calls that are
// made at once; further ones wait for one until their deadline.
const maxCalls = 512

var (
	errAnswer   = errors.New("the log service did not store the event")
	errConflict = errors.New("an event with another key or body has this id")
)

// caller passes events on by calling the log service, and waits for it.
type caller struct{ client *fasthttp.HostClient }

func newCaller(addr string) *caller {
	return &caller{&fasthttp.HostClient{
		Addr: addr, MaxConns: maxCalls, MaxConnWaitTimeout: Timeout,
		// Less than the log service keeps an idle connection open, so that a call does
		// not cross its end.
		MaxIdleConnDuration:           30 * time.Second,
		NoDefaultUserAgentHeader:      true,
		DisableHeaderNamesNormalizing: true,
		// A call that failed may have been done; the log service knows an event by its
		// id.
		MaxIdemponentCallAttempts: 1,
	}}
}

func (c *caller) send(ctx context.Context, e *Event) error {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.Header.SetMethod(fasthttp.MethodPost)
	req.SetRequestURI("/events")
	req.Header.SetHost(c.client.Addr)
	req.Header.Set(IDHeader, e.ID)
	if e.Key != "" {
		req.Header.Set(KeyHeader, e.Key)
	}
	req.Header.Set(AcceptedHeader, strconv.FormatInt(e.Accepted.UnixNano(), 10))
	req.SetBodyRaw(e.Body)
	deadline, _ := ctx.Deadline() // Handle always sets one
	if err := c.client.DoDeadline(req, resp, deadline); err != nil {
		return fmt.Errorf("call the log service: %w", err)
	}
	switch status := resp.StatusCode(); status {
	case fasthttp.StatusOK:
		return nil
	case fasthttp.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %s", errConflict, e.ID)
	default:
		return fmt.Errorf("%w: status %d to event %s", errAnswer, status, e.ID)
	}
}

// ready is true: each call finds out for itself, and an answer of 503 costs a caller
// less than a service that is taken out of its balancer.
func (c *caller) ready() bool { return true }

func (c *caller) close() error {
	c.client.CloseIdleConnections()
	return nil
}
