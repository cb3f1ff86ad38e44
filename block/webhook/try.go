package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Sign returns the value of webhook-signature for a message that is sent at the
// time: a signature by each key, separated by spaces.
func Sign(keys []Key, id string, at time.Time, body []byte) string {
	signatures := make([]string, len(keys))
	for i, k := range keys {
		mac := hmac.New(sha256.New, k.secret)
		mac.Write(fmt.Appendf(nil, "%s.%d.%s", id, at.Unix(), body))
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}

// What a try came to, the label outcome.
const (
	delivered   = "delivered"
	refused     = "refused"     // this message, for all that is known
	unavailable = "unavailable" // the endpoint
	gone        = "gone"
)

// failure is a try that was not answered 2xx.
type failure struct {
	outcome string
	err     error
	// wait is how long the endpoint asks to wait, 0 if it does not.
	wait time.Duration
}

var errTimeout = errors.New("the endpoint did not answer in time")

// maxAnswer is how much of an answer is read, so that the connection can be used again.
const maxAnswer = 4 << 10

// try sends a message once. A nil failure is an answer 2xx.
func (e *endpoint) try(ctx context.Context, m *Message) *failure {
	ctx, cancel := context.WithTimeoutCause(ctx, e.cfg.Timeout, errTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.to.URL, bytes.NewReader(m.Body))
	if err != nil {
		return &failure{unavailable, quiet(err), 0}
	}
	now := time.Now()
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"loadstone-webhook"},
		"Webhook-Id": {m.ID}, "Webhook-Timestamp": {strconv.FormatInt(now.Unix(), 10)}, "Webhook-Signature": {Sign(e.to.Keys, m.ID, now, m.Body)},
	}
	res, err := e.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return &failure{unavailable, quiet(err), 0}
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer)
	outcome := refused
	switch code := res.StatusCode; {
	case code/100 == 2:
		return nil
	case code == http.StatusGone:
		outcome = gone
	case code/100 == 3, code == http.StatusTooManyRequests, code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		outcome = unavailable
	}
	return &failure{outcome, fmt.Errorf("message %s was answered %d", m.ID, res.StatusCode), retryAfter(res.Header.Get("Retry-After"), now)}
}

// quiet takes the URL out of an error: there may be a secret in it.
func quiet(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// retryAfter reads a number of seconds or a date; 0 if it is neither.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
