package oidc_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"loadstone/system/chat"
	"loadstone/system/chat/oidc"
	"loadstone/system/chat/oidc/oidctest"
)

func client(p *oidctest.Provider) *oidc.Client {
	return oidc.New(oidc.Config{
		Issuer: p.URL, ClientID: oidctest.ClientID, Secret: oidctest.Secret, Name: "Test", Callback: "http://127.0.0.1/api/oidc/callback",
		Timeout: time.Minute, // a busy machine's answers
	}, []byte(strings.Repeat("k", 32)))
}

// browse goes where a browser is sent, and returns what it comes back with.
func browse(t *testing.T, address string) url.Values {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	browser := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := browser.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close() // what matters is in the header
	back, err := response.Location()
	if err != nil {
		t.Fatal(err)
	}
	return back.Query()
}

// signIn does all of it, with what a test changes on the way back.
func signIn(t *testing.T, c *oidc.Client, change func(kept *string, back url.Values)) (oidc.Identity, error) {
	t.Helper()
	address, kept, err := c.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	back := browse(t, address)
	if change != nil {
		change(&kept, back)
	}
	return c.Finish(t.Context(), kept, back.Get("state"), back.Get("code"))
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	got, err := signIn(t, client(p), nil)
	if want := (oidc.Identity{Issuer: p.URL, Subject: "42", Name: "Noor", Picture: "https://id.example/42.png"}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// What somebody is called there is made one that can be shown here.
func TestNames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(claims map[string]any)
		want   string
	}{
		"none":         {func(c map[string]any) { delete(c, "name") }, "Somebody"},
		"another":      {func(c map[string]any) { c["name"], c["preferred_username"] = " ", "noor" }, "noor"},
		"a long one":   {func(c map[string]any) { c["name"] = strings.Repeat("한", 50) }, strings.Repeat("한", chat.MaxName)},
		"instructions": {func(c map[string]any) { c["name"], c["picture"] = "No\x1bor\n", "javascript:alert(1)" }, "Noor"},
	} {
		p := oidctest.Start(t)
		p.Change = func(_, claims map[string]any) { c.change(claims) }
		if got, err := signIn(t, client(p), nil); err != nil || got.Name != c.want || !strings.HasPrefix(got.Picture+"https://", "https://") {
			t.Errorf("%s: got %+v, %v, want %q", name, got, err, c.want)
		}
	}
}

// Nobody gets in with an ID token of another issuer, for another client, from another time, for
// another question, or that the provider's key has not signed.
func TestIDTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *oidctest.Provider, header, claims map[string]any){
		"another issuer": func(_ *oidctest.Provider, _, c map[string]any) { c["iss"] = "https://evil.example" },
		"no issuer":      func(_ *oidctest.Provider, _, c map[string]any) { delete(c, "iss") },
		"another client": func(_ *oidctest.Provider, _, c map[string]any) { c["aud"] = "shop" },
		"expired":        func(_ *oidctest.Provider, _, c map[string]any) { c["exp"] = time.Now().Add(-time.Minute).Unix() },
		"no end":         func(_ *oidctest.Provider, _, c map[string]any) { delete(c, "exp") },
		"another nonce":  func(_ *oidctest.Provider, _, c map[string]any) { c["nonce"] = "x" },
		"no nonce":       func(_ *oidctest.Provider, _, c map[string]any) { delete(c, "nonce") },
		"nobody":         func(_ *oidctest.Provider, _, c map[string]any) { c["sub"] = "" },
		"alg none":       func(p *oidctest.Provider, h, _ map[string]any) { h["alg"] = "none"; p.Sign = unsigned },
		"alg HS256":      func(p *oidctest.Provider, h, _ map[string]any) { h["alg"] = "HS256"; p.Sign = withSecret },
		"not signed":     func(p *oidctest.Provider, _, _ map[string]any) { p.Sign = unsigned },
		"another's key": func(p *oidctest.Provider, _, _ map[string]any) {
			p.Sign = func([]byte) []byte { return make([]byte, 64) }
		},
		"a key not known": func(_ *oidctest.Provider, h, _ map[string]any) { h["kid"] = "2"; h["alg"] = "RS256" },
	} {
		p := oidctest.Start(t)
		p.Change = func(header, claims map[string]any) { change(p, header, claims) }
		if got, err := signIn(t, client(p), nil); !errors.Is(err, oidc.ErrFailed) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func unsigned([]byte) []byte { return nil }

func withSecret(text []byte) []byte {
	mac := hmac.New(sha256.New, []byte(oidctest.Secret))
	mac.Write(text)
	return mac.Sum(nil)
}

func TestAnswersThatAreRefused(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	c := client(p)
	_, others, err := c.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(kept *string, back url.Values){
		"another browser": func(kept *string, _ url.Values) { *kept = "" },
		"another sign-in": func(kept *string, _ url.Values) { *kept = others },
		"a forged cookie": func(kept *string, _ url.Values) { *kept = "a.b.c.9999999999.x" },
		"no state":        func(_ *string, back url.Values) { back.Del("state") },
		"no code":         func(_ *string, back url.Values) { back.Del("code") },
		"another code":    func(_ *string, back url.Values) { back.Set("code", "x") },
		"another verifier": func(kept *string, back url.Values) { // a code that was taken from somebody
			address, mine, err := c.Start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			*kept = mine
			back.Set("state", browse(t, address).Get("state"))
		},
	} {
		if got, err := signIn(t, c, change); !errors.Is(err, oidc.ErrFailed) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	var kept, code, state string
	if _, err := signIn(t, c, func(k *string, back url.Values) { kept, code, state = *k, back.Get("code"), back.Get("state") }); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Finish(t.Context(), kept, state, code); !errors.Is(err, oidc.ErrFailed) {
		t.Errorf("a second time: got %v", err)
	}
}

// A provider that is down is asked again for the next who wants to sign in.
func TestAProviderThatIsDown(t *testing.T) {
	t.Parallel()
	p := oidctest.Start(t)
	c := client(p)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.Start(gone); !errors.Is(err, chat.ErrProvider) {
		t.Errorf("got %v", err)
	}
	if _, err := signIn(t, c, nil); err != nil {
		t.Errorf("later: got %v", err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := oidc.Config{Issuer: "https://id.example", ClientID: "a", Secret: "b", Callback: "https://chat.example/api/oidc/callback", Name: "Id"}
	if none := (oidc.Config{}); good.Validate() != nil || none.Validate() != nil {
		t.Errorf("got %v", good.Validate())
	}
	for want, change := range map[string]func(*oidc.Config){
		`the issuer of sign-ins elsewhere is "http://id.example"`: func(c *oidc.Config) { c.Issuer = "http://id.example" },
		`the callback of sign-ins elsewhere is "/callback"`:       func(c *oidc.Config) { c.Callback = "/callback" },
		"need the client's id":                                    func(c *oidc.Config) { c.Secret = "" },
	} {
		bad := good
		change(&bad)
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
