package chat

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	key := []byte(strings.Repeat("k", 32))
	now := time.Unix(1_800_000_000, 5)
	tokens := NewTokens(key, time.Hour)
	tokens.now = func() time.Time { return now }
	user, err := NewGuest("민수")
	if err != nil {
		t.Fatal(err)
	}
	token, err := tokens.Sign(&user)
	if got, checked := tokens.Check(token); got != user || errors.Join(err, checked) != nil || !user.Until.Equal(time.Unix(1_800_003_600, 0)) {
		t.Fatalf("got %+v, %v, want %+v", got, errors.Join(err, checked), user)
	}
	signed := func(header, body string) string {
		text := tokenCoding.EncodeToString([]byte(header)) + "." + tokenCoding.EncodeToString([]byte(body))
		m := hmac.New(sha256.New, key)
		m.Write([]byte(text))
		return text + "." + tokenCoding.EncodeToString(m.Sum(nil))
	}
	const header, body = `{"alg":"HS256","typ":"JWT"}`, `{"use":"access","sub":"a","name":"n","iat":1,"exp":1900000000}`
	if _, err := tokens.Check(signed(header, body)); err != nil {
		t.Fatalf("the form of the tests: %v", err)
	}
	other := NewTokens([]byte(strings.Repeat("o", 32)), time.Hour)
	foreign, err := other.Sign(&User{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(token, ".")
	for name, bad := range map[string]string{
		"none":                  "",
		"dots":                  "...",
		"alg none":              tokenCoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".",
		"alg none, signed":      signed(`{"alg":"none","typ":"JWT"}`, body),
		"alg RS256":             signed(`{"alg":"RS256","typ":"JWT"}`, body),
		"no signature":          parts[0] + "." + parts[1] + ".",
		"half a signature":      token[:len(token)-5],
		"another's key":         foreign,
		"another name":          parts[0] + "." + tokenCoding.EncodeToString([]byte(body)) + "." + parts[2],
		"a refresh token":       signed(header, strings.Replace(body, "access", "refresh", 1)),
		"no use":                signed(header, strings.Replace(body, `"use":"access",`, "", 1)),
		"expired":               signed(header, strings.Replace(body, "1900000000", "1800000000", 1)),
		"no end":                signed(header, strings.Replace(body, `,"exp":1900000000`, "", 1)),
		"nobody's":              signed(header, strings.Replace(body, `"sub":"a"`, `"sub":""`, 1)),
		"a role that is none":   signed(header, strings.Replace(body, `"iat"`, `"role":"king","iat"`, 1)),
		"a zero in the subject": signed(header, strings.Replace(body, `"sub":"a"`, `"sub":"a\u0000"`, 1)),
		"no JSON":               signed(header, "x"),
		"a line behind it":      token + "\n",
	} {
		if got, err := tokens.Check(bad); !errors.Is(err, ErrToken) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	now = now.Add(time.Hour)
	if _, err := tokens.Check(token); !errors.Is(err, ErrToken) {
		t.Errorf("an hour later: got %v", err)
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	order := append([]Role{Guest}, Roles()...)
	for i, r := range order {
		for j, needed := range order {
			if r.May(needed) != (i >= j) {
				t.Errorf("%q may what %q may: got %v", r, needed, r.May(needed))
			}
		}
	}
	if Role("king").May(Guest) {
		t.Error("a role that is none may do something")
	}
	stream := &Stream{HostID: "user-a"}
	for _, c := range []struct {
		user User
		want bool
	}{
		{User{ID: "user-a", Role: Host}, true},
		{User{ID: "user-b", Role: Host}, false},
		{User{ID: "user-b", Role: Admin}, true},
		{User{ID: "user-a", Role: Member}, false},
		{User{ID: "user-a"}, false},
	} {
		if c.user.Hosts(stream) != c.want {
			t.Errorf("%+v: got %v", c.user, !c.want)
		}
	}
	if (&User{Role: Host}).Hosts(&Stream{}) {
		t.Error("nobody hosts a stream that is nobody's")
	}
}

func TestCheckPicture(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"": true, "https://show.example/noor.png?size=64": true,
		"http://show.example/noor.png": false, "javascript:alert(1)": false, "data:image/png;base64,AA": false,
		"https:///noor.png": false, "https://a@show.example/": false, "//show.example/x": false,
		`https://show.example/"onerror=alert(1)`: false, "https://show.example/ x": false, "https://show.example/\n": false,
		"https://show.example/" + strings.Repeat("x", 500): false,
	} {
		if err := CheckPicture(address); (err == nil) != want {
			t.Errorf("%q: got %v", address, err)
		}
	}
}

// An entry lets one into one stream, and is no access token; nor is that an entry.
func TestEntries(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	tokens := NewTokens([]byte(strings.Repeat("k", 32)), time.Hour)
	tokens.now = func() time.Time { return now }
	noor := User{ID: "user-noor", Name: "Noor", Role: Member}
	access, err := tokens.Sign(&noor)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := tokens.SignEntry(&noor, 7)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tokens.CheckEntry(entry, 7); got != noor || err != nil {
		t.Errorf("got %+v, %v, want %+v", got, err, noor)
	}
	if _, err := tokens.CheckEntry(entry, 8); !errors.Is(err, ErrToken) {
		t.Errorf("another stream: got %v", err)
	}
	if _, err := tokens.CheckEntry(access, 7); !errors.Is(err, ErrToken) {
		t.Errorf("an access token as an entry: got %v", err)
	}
	if _, err := tokens.Check(entry); !errors.Is(err, ErrToken) {
		t.Errorf("an entry as an access token: got %v", err)
	}
	now = now.Add(entryTTL)
	if _, err := tokens.CheckEntry(entry, 7); !errors.Is(err, ErrToken) {
		t.Errorf("later: got %v", err)
	}
}
