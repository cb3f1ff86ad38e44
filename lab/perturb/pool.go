package perturb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// putTimeout bounds the change of one pool's size. A service at its limit answers
// late, but a change that takes a fifth of its slot leaves the slot unused anyway,
// so what has not come by then is lost.
const putTimeout = 2 * time.Second

// Endpoint is where one instance of a service takes a new size of its pool.
type Endpoint struct {
	URL  string // of the PUT
	Size int    // in slots, without perturbation; 1 at least
	// Token is sent as Authorization: Bearer; empty for none.
	Token string
}

// Slots is the knob of a pool whose size its service takes over HTTP: a PUT of
// body, in which {n} stands for the number of slots. All instances are set, one
// after the other.
//
// Slots come in whole numbers, so every step is one slot at least: of a pool of 4
// all steps are ±25 %, and a pool of one slot can only be enlarged. Actual says
// what a step really is, and elasticities are worked out from that.
func Slots(component, name, body string, at []Endpoint) Knob {
	// Nothing of it outlives a change: there is one a second at most.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: putTimeout}
	return Knob{
		Target: Target{Component: component, Resource: Pool, Name: name},
		Set: func(ctx context.Context, factor float64) error {
			var errs []error
			for _, e := range at {
				errs = append(errs, e.put(ctx, client, strings.ReplaceAll(body, "{n}", strconv.Itoa(e.sized(factor)))))
			}
			return errors.Join(errs...)
		},
		Actual: func(factor float64) float64 {
			before, after := 0, 0
			for _, e := range at {
				before, after = before+e.Size, after+e.sized(factor)
			}
			return float64(after) / float64(max(before, 1))
		},
	}
}

// sized is the number of slots nearest to factor times what it has, but another
// one than that unless the factor is 1, and 1 at least.
func (e Endpoint) sized(factor float64) int {
	n := int(math.Round(factor * float64(e.Size)))
	switch {
	case factor < 1:
		n = min(n, e.Size-1)
	case factor > 1:
		n = max(n, e.Size+1)
	}
	return max(n, 1)
}

func (e Endpoint) put(ctx context.Context, client *http.Client, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, e.URL, strings.NewReader(body))
	if err != nil {
		return err
	}
	if e.Token != "" {
		req.Header.Set("Authorization", "Bearer "+e.Token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("set the size of a pool: %w", err)
	}
	const longest = 200 // bytes of an answer that says what was wrong
	text, err := io.ReadAll(io.LimitReader(resp.Body, longest))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("set the size of a pool: PUT %s: %w", e.URL, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("set the size of a pool: PUT %s: status %d (%s), want 200 to 299", e.URL, resp.StatusCode, strings.TrimSpace(string(text)))
	}
	return nil
}
