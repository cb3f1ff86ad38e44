package webhook

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Endpoint is who is told.
type Endpoint struct {
	// Name is what its place and its metrics are called: it may get another URL or other keys
	// and goes on where it was.
	Name string
	URL  string
	// Keys sign every message, each with a signature of its own: the new one and
	// the old one while a receiver changes from one to the other.
	Keys []Key
}

// Key is a secret that sender and receiver share. It prints as nothing.
type Key struct{ secret []byte }

// String hides the key.
func (Key) String() string { return keyPrefix + "..." }

const (
	keyPrefix    = "whsec_"
	minKey       = 24 // bytes, as the specification says
	maxKey       = 64
	maxKeys      = 4
	maxEndpoints = 32
)

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// ParseKey reads whsec_ and 24 to 64 bytes in base64. Its error does not show the text.
func ParseKey(text string) (Key, error) {
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, keyPrefix))
	if err != nil || !strings.HasPrefix(text, keyPrefix) || len(secret) < minKey || len(secret) > maxKey {
		return Key{}, fmt.Errorf("this is no key: write %s and the output of openssl rand -base64 32", keyPrefix)
	}
	return Key{secret}, nil
}

// Validate returns all problems, joined, or nil. They show no secret: a URL may have one anywhere.
func (e Endpoint) Validate() error {
	var errs []error
	if !validName.MatchString(e.Name) {
		errs = append(errs, fmt.Errorf("the name of an endpoint is %q: write 1 to 32 of a-z, 0-9, - and _", e.Name))
	}
	if u, err := url.Parse(e.URL); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.Fragment != "" {
		errs = append(errs, fmt.Errorf("the URL of endpoint %q cannot be used: write one such as https://example.org/menus", e.Name))
	}
	if n := len(e.Keys); n < 1 || n > maxKeys {
		errs = append(errs, fmt.Errorf("endpoint %q has %d keys: write 1 to %d", e.Name, n, maxKeys))
	}
	return errors.Join(errs...)
}

// ParseEndpoints reads a line for each endpoint, NAME URL KEY [KEY...], with comments behind #
// at the beginning of a line. All problems are returned, joined, by line.
func ParseEndpoints(text string) (endpoints []Endpoint, err error) {
	var errs []error
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		e, err := parseEndpoint(fields)
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
		}
		endpoints = append(endpoints, e)
	}
	if len(endpoints) == 0 || len(endpoints) > maxEndpoints {
		errs = append(errs, fmt.Errorf("there are %d endpoints: write 1 to %d lines of NAME URL KEY [KEY...]", len(endpoints), maxEndpoints))
	}
	return endpoints, errors.Join(append(errs, lines.Err())...)
}

func parseEndpoint(fields []string) (Endpoint, error) {
	if len(fields) < 3 {
		return Endpoint{}, errors.New("something is missing: write NAME URL KEY [KEY...]")
	}
	e := Endpoint{Name: fields[0], URL: fields[1]}
	for _, field := range fields[2:] {
		key, err := ParseKey(field)
		if err != nil {
			return e, err
		}
		e.Keys = append(e.Keys, key)
	}
	return e, e.Validate()
}
