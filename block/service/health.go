package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// healthTimeout bounds a health check. A probe that has waited longer has its
// answer: supervisors repeat checks every few seconds, and checks must not
// pile up.
const healthTimeout = 3 * time.Second

// ErrAddress is wrapped by Health for an address that can be none of a service.
var ErrAddress = errors.New("the address of a service's health is wrong")

// Health asks a service at an address such as http://127.0.0.1:8080/readyz and
// returns nil if it answers with status 200. It is meant for a supervisor's
// check in images that have no HTTP client of their own.
func Health(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("%w: it is %q, must be like http://127.0.0.1:8080/readyz", ErrAddress, address)
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return fmt.Errorf("health of %s: %w", address, err)
	}
	// No proxy from the environment and no connection kept: the service itself is
	// asked, once.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	const most = 200 // bytes of the answer that are shown
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("health of %s: %w", address, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("health of %s: status %d: %s", address, resp.StatusCode, body)
	}
	return nil
}
