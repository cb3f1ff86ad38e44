package chat

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Tokens makes and checks tokens: JSON Web Tokens (RFC 7519) with HMAC SHA-256 and no other
// algorithm. What a token says of its algorithm is not asked: its header is compared with the
// one that there is.
type Tokens struct {
	key []byte
	ttl time.Duration
	now func() time.Time
}

// NewTokens returns tokens that are signed with a key, of 32 random bytes, and are good for ttl.
func NewTokens(key []byte, ttl time.Duration) *Tokens {
	return &Tokens{key: key, ttl: ttl, now: time.Now}
}

// What tokens are for. One for another use is refused.
const accessUse, entryUse = "access", "entry"

// entryTTL is how long one may take from being let into a stream to joining it: a slow network.
const entryTTL = 30 * time.Second

type claims struct {
	Use     string `json:"use"`
	Subject string `json:"sub"`
	Name    string `json:"name"`
	Role    Role   `json:"role,omitempty"`
	Session string `json:"sid,omitempty"`
	Issued  int64  `json:"iat"`
	Expires int64  `json:"exp"`
	// Stream and Until are an entry's: where to, and when the user's access ends.
	Stream int64 `json:"stream,omitempty"`
	Until  int64 `json:"until,omitempty"`
}

var (
	tokenCoding = base64.RawURLEncoding.Strict()
	tokenHeader = tokenCoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "."
)

// Sign makes a token for the user, and says in Until how long it is good.
func (t *Tokens) Sign(u *User) (string, error) {
	now := t.now()
	u.Until = now.Add(t.ttl).Truncate(time.Second)
	return t.sign(claims{Use: accessUse, Subject: u.ID, Name: u.Name, Role: u.Role, Session: u.Session, Issued: now.Unix(), Expires: u.Until.Unix()})
}

// Check returns whose the token is, or ErrToken.
func (t *Tokens) Check(token string) (User, error) {
	c, err := t.check(token, accessUse)
	return User{ID: c.Subject, Name: c.Name, Role: c.Role, Session: c.Session, Until: time.Unix(c.Expires, 0)}, err
}

// SignEntry makes a token that lets a user into one stream, and soon. It may be written where
// an access token should not, as in an address: servers and proxies write addresses down.
func (t *Tokens) SignEntry(u *User, stream int64) (string, error) {
	now := t.now()
	return t.sign(claims{Use: entryUse, Subject: u.ID, Name: u.Name, Role: u.Role, Session: u.Session, Issued: now.Unix(), Expires: now.Add(entryTTL).Unix(), Stream: stream, Until: u.Until.Unix()})
}

// CheckEntry returns whom an entry lets into the stream, with the end of its access, or ErrToken.
func (t *Tokens) CheckEntry(token string, stream int64) (User, error) {
	c, err := t.check(token, entryUse)
	if err == nil && c.Stream != stream {
		err = ErrToken
	}
	return User{ID: c.Subject, Name: c.Name, Role: c.Role, Session: c.Session, Until: time.Unix(c.Until, 0)}, err
}

func (t *Tokens) sign(c claims) (string, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	text := tokenHeader + tokenCoding.EncodeToString(body)
	return text + "." + string(t.sum(text)), nil
}

// check returns what a token of that use says, or ErrToken.
func (t *Tokens) check(token, use string) (claims, error) {
	dot := strings.LastIndexByte(token, '.')
	if dot < len(tokenHeader) || token[:len(tokenHeader)] != tokenHeader {
		return claims{}, ErrToken
	}
	if !hmac.Equal([]byte(token[dot+1:]), t.sum(token[:dot])) {
		return claims{}, ErrToken
	}
	var c claims
	body, err := tokenCoding.DecodeString(token[len(tokenHeader):dot])
	if err != nil || json.Unmarshal(body, &c) != nil {
		return claims{}, ErrToken
	}
	if c.Use != use || !ValidID(c.Subject) || !c.Role.known() || !t.now().Before(time.Unix(c.Expires, 0)) {
		return claims{}, ErrToken
	}
	return c, nil
}

// sum is the signature, as it is written: decoded, several texts would be the same.
func (t *Tokens) sum(text string) []byte {
	m := hmac.New(sha256.New, t.key)
	m.Write([]byte(text))
	return tokenCoding.AppendEncode(nil, m.Sum(nil))
}
