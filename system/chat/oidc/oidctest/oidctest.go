// Package oidctest is a small provider of identities for tests: whoever asks is signed in at
// once.
package oidctest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// ClientID and Secret are what a client is known by.
const (
	ClientID = "chat"
	Secret   = "the client's secret"
)

// Provider is one. Fields are set before the first request.
type Provider struct {
	// URL is its address, and its name.
	URL string
	// Change changes an ID token before it is signed.
	Change func(header, claims map[string]any)
	// Sign signs in place of the provider's key.
	Sign func(text []byte) []byte

	tb  testing.TB
	key *ecdsa.PrivateKey

	mu    sync.Mutex
	asked map[string]url.Values // by code, what was asked
}

// Start starts a provider, which ends with the test.
func Start(tb testing.TB) *Provider {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Provider{tb: tb, key: key, asked: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.describe)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	server := httptest.NewServer(mux)
	tb.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

func (p *Provider) answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(body); err != nil {
		p.tb.Error(err)
	}
}

func (p *Provider) describe(w http.ResponseWriter, _ *http.Request) {
	p.answer(w, map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"ES256", "HS256", "none"},
	})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	const coordinate = 32
	point, err := p.key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		p.tb.Error(err)
		return
	}
	p.answer(w, map[string]any{"keys": []any{map[string]any{
		"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "1", "x": coded(point[1 : 1+coordinate]), "y": coded(point[1+coordinate:]),
	}}})
}

func coded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// authorize signs the browser in, and sends it back.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q, code := r.URL.Query(), rand.Text()
	p.mu.Lock()
	p.asked[code] = q
	p.mu.Unlock()
	//nolint:gosec // a provider would know where the client's browsers may be sent
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

// token gives an ID token for a code, once, to who has the secret and the verifier.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	p.mu.Lock()
	asked := p.asked[r.PostFormValue("code")]
	delete(p.asked, r.PostFormValue("code"))
	p.mu.Unlock()
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	known, err := url.QueryUnescape(secret) // as OAuth 2.0 wants it
	if err != nil || id != ClientID || known != Secret || asked == nil || asked.Get("code_challenge_method") != "S256" || asked.Get("code_challenge") != coded(challenge[:]) {
		w.WriteHeader(http.StatusBadRequest)
		p.answer(w, map[string]any{"error": "invalid_grant"})
		return
	}
	header := map[string]any{"alg": "ES256", "kid": "1"}
	claims := map[string]any{
		"iss": p.URL, "aud": ClientID, "sub": "42", "nonce": asked.Get("nonce"), "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(),
		"name": "Noor", "picture": "https://id.example/42.png",
	}
	if p.Change != nil {
		p.Change(header, claims)
	}
	p.answer(w, map[string]any{"access_token": "unused", "token_type": "Bearer", "expires_in": 60, "id_token": p.signed(header, claims)})
}

func (p *Provider) signed(header, claims map[string]any) string {
	text := p.part(header) + "." + p.part(claims)
	sign := p.Sign
	if sign == nil {
		sign = p.sign
	}
	return text + "." + coded(sign([]byte(text)))
}

func (p *Provider) part(form map[string]any) string {
	text, err := json.Marshal(form)
	if err != nil {
		p.tb.Error(err)
	}
	return coded(text)
}

// sign signs as ES256 wants it: both numbers, 32 bytes each.
func (p *Provider) sign(text []byte) []byte {
	const number = 32
	sum := sha256.Sum256(text)
	r, s, err := ecdsa.Sign(rand.Reader, p.key, sum[:])
	if err != nil {
		p.tb.Error(err)
		return nil
	}
	both := make([]byte, 2*number)
	r.FillBytes(both[:number])
	s.FillBytes(both[number:])
	return both
}
