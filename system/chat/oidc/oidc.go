// Package oidc has people sign in at a provider of identities, by OpenID Connect: the
// authorization code flow with PKCE, a state and a nonce.
//
//	browser ── Start ──► provider: who are you? ──► browser ── Finish ──► code for an ID token
//
// What Finish needs of Start is kept by the browser, signed, in a cookie: the state shows that
// the answer belongs to this browser's question, the nonce that the ID token does, and only who
// has the verifier can use the code. So nothing here grows with those who never come back.
//
// Of an ID token the signature, by one of Algorithms, the issuer, the audience, the expiry and
// the nonce are checked. What it says of an e-mail address is not used.
package oidc

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"loadstone/system/chat"
)

// Config says where people sign in.
type Config struct {
	// Issuer is the provider's name, an https address; empty if there is none.
	Issuer string
	// ClientID and Secret are what the provider knows this server by.
	ClientID, Secret string
	// Callback is where browsers come back to.
	Callback string
	// Name is what people call the provider.
	Name string
	// Timeout bounds a request to the provider; 0 for 4 seconds.
	Timeout time.Duration
}

// On reports whether there is a provider.
func (c *Config) On() bool { return c.Issuer != "" }

// Validate returns all problems, joined, or nil.
func (c *Config) Validate() error {
	if !c.On() {
		return nil
	}
	var errs []error
	for what, address := range map[string]string{"the issuer": c.Issuer, "the callback": c.Callback} {
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !local(u.Hostname())) {
			errs = append(errs, fmt.Errorf("%s of sign-ins elsewhere is %q: write an address that begins with https://", what, address))
		}
	}
	if c.ClientID == "" || c.Secret == "" || c.Name == "" {
		errs = append(errs, errors.New("sign-ins elsewhere need the client's id, its secret and the provider's name: write all of them"))
	}
	return errors.Join(errs...)
}

// local reports whether a host is this machine, for tests and development.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Algorithms are those that an ID token may be signed with, whatever the provider offers.
func Algorithms() []string { return []string{"RS256", "ES256"} }

// The time that one may take to sign in there, that a request to the provider may take unless Config says
// otherwise, and how many people are asked about at a time.
const (
	Patience = 10 * time.Minute
	timeout  = 4 * time.Second
	atATime  = 16
)

// ErrFailed is that somebody did not sign in there, or what came back is not to be believed.
var ErrFailed = errors.New("the sign-in at the provider failed")

// Identity is who somebody is at the provider.
type Identity struct{ Issuer, Subject, Name, Picture string }

// Client asks the provider. It is safe for concurrent use.
type Client struct {
	cfg   Config
	key   []byte
	http  *http.Client
	now   func() time.Time
	slots chan struct{}
	found chan *oidc.Provider // holds one: nil until the provider has been asked
}

// New returns a client; the key, of 32 random bytes, signs what browsers keep. The provider is
// asked for its addresses when somebody first signs in: it may be down until then.
func New(cfg Config, key []byte) *Client {
	mac := hmac.New(sha256.New, key) // a key of its own: what it signs is nothing else
	mac.Write([]byte("sign-ins elsewhere"))
	c := &Client{
		cfg: cfg, key: mac.Sum(nil), http: &http.Client{Timeout: cmp.Or(cfg.Timeout, timeout)}, now: time.Now,
		slots: make(chan struct{}, atATime), found: make(chan *oidc.Provider, 1),
	}
	c.found <- nil
	return c
}

// provider finds out the provider's addresses once.
func (c *Client) provider(ctx context.Context) (*oidc.Provider, error) {
	var p *oidc.Provider
	select {
	case p = <-c.found:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var err error
	if p == nil {
		p, err = oidc.NewProvider(oidc.ClientContext(ctx, c.http), c.cfg.Issuer)
	}
	if err != nil {
		p = nil
	}
	c.found <- p
	return p, err
}

func (c *Client) oauth(p *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: c.cfg.ClientID, ClientSecret: c.cfg.Secret, Endpoint: p.Endpoint(), RedirectURL: c.cfg.Callback,
		Scopes: []string{oidc.ScopeOpenID, "profile"},
	}
}

// busy takes a slot, which free gives back.
func (c *Client) busy() (free func(), err error) {
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	default:
		return nil, chat.ErrTooMany
	}
}

// Start returns where to send a browser, and what it is to keep until it comes back, for
// Patience.
func (c *Client) Start(ctx context.Context) (address, kept string, err error) {
	free, err := c.busy()
	if err != nil {
		return "", "", err
	}
	defer free()
	p, err := c.provider(ctx)
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", chat.ErrProvider, err)
	}
	state, nonce, verifier := rand.Text(), rand.Text(), oauth2.GenerateVerifier()
	text := strings.Join([]string{state, nonce, verifier, strconv.FormatInt(c.now().Add(Patience).Unix(), 10)}, ".")
	return c.oauth(p).AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)), text + "." + c.sign(text), nil
}

func (c *Client) sign(text string) string {
	mac := hmac.New(sha256.New, c.key)
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// question is what a browser kept.
type question struct{ state, nonce, verifier string }

func (c *Client) question(kept string) (question, error) {
	dot := strings.LastIndexByte(kept, '.')
	if dot < 0 || !hmac.Equal([]byte(kept[dot+1:]), []byte(c.sign(kept[:dot]))) {
		return question{}, fmt.Errorf("%w: it did not begin in this browser", ErrFailed)
	}
	parts := strings.Split(kept[:dot], ".") // four, for it is ours
	until, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil || c.now().Unix() >= until {
		return question{}, fmt.Errorf("%w: it took more than %v", ErrFailed, Patience)
	}
	return question{parts[0], parts[1], parts[2]}, nil
}

// Finish returns who signed in. kept is what the browser kept, state and code what the provider
// had it bring. The error wraps ErrFailed, or is chat.ErrTooMany.
func (c *Client) Finish(ctx context.Context, kept, state, code string) (Identity, error) {
	asked, err := c.question(kept)
	if err != nil {
		return Identity{}, err
	}
	if subtle.ConstantTimeCompare([]byte(state), []byte(asked.state)) != 1 {
		return Identity{}, fmt.Errorf("%w: it is the answer to another question", ErrFailed)
	}
	free, err := c.busy()
	if err != nil {
		return Identity{}, err
	}
	defer free()
	identity, err := c.exchange(ctx, asked, code)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return identity, nil
}

// exchange asks the provider whose the code is.
func (c *Client) exchange(ctx context.Context, asked question, code string) (Identity, error) {
	p, err := c.provider(ctx)
	if err != nil {
		return Identity{}, err
	}
	ctx = oidc.ClientContext(ctx, c.http)
	token, err := c.oauth(p).Exchange(ctx, code, oauth2.VerifierOption(asked.verifier))
	if err != nil {
		return Identity{}, err
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return Identity{}, errors.New("the provider gave no ID token")
	}
	id, err := p.VerifierContext(ctx, &oidc.Config{ClientID: c.cfg.ClientID, SupportedSigningAlgs: Algorithms(), Now: c.now}).Verify(ctx, raw)
	if err != nil {
		return Identity{}, err
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(asked.nonce)) != 1 {
		return Identity{}, errors.New("the ID token is the answer to another question")
	}
	var said struct {
		Name     string `json:"name"`
		Username string `json:"preferred_username"`
		Picture  string `json:"picture"`
	}
	if err := id.Claims(&said); err != nil {
		return Identity{}, err
	}
	if id.Subject == "" {
		return Identity{}, errors.New("the ID token is nobody's")
	}
	who := Identity{Issuer: id.Issuer, Subject: id.Subject, Name: named(said.Name, said.Username), Picture: said.Picture}
	if chat.CheckPicture(who.Picture) != nil {
		who.Picture = ""
	}
	return who, nil
}

// named is the first of the names that can be one here, shortened where it is too long.
func named(names ...string) string {
	for _, name := range names {
		name = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return -1
			}
			return r
		}, strings.ToValidUTF8(name, ""))
		if all := []rune(name); len(all) > chat.MaxName {
			name = string(all[:chat.MaxName])
		}
		if chat.CheckName(name) == nil {
			return name
		}
	}
	return "Somebody"
}
