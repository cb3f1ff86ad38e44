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

// accessUse is what these tokens are for. One for another use is refused.
const accessUse = "access"

type claims struct {
	Use     string `json:"use"`
	Subject string `json:"sub"`
	Name    string `json:"name"`
	Role    Role   `json:"role,omitempty"`
	Issued  int64  `json:"iat"`
	Expires int64  `json:"exp"`
}

var (
	tokenCoding = base64.RawURLEncoding.Strict()
	tokenHeader = tokenCoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "."
)

// Sign makes a token for the user, and says in Until how long it is good.
func (t *Tokens) Sign(u *User) (string, error) {
	now := t.now()
	u.Until = now.Add(t.ttl).Truncate(time.Second)
	body, err := json.Marshal(claims{accessUse, u.ID, u.Name, u.Role, now.Unix(), u.Until.Unix()})
	if err != nil {
		return "", err
	}
	text := tokenHeader + tokenCoding.EncodeToString(body)
	return text + "." + string(t.sum(text)), nil
}

// Check returns whose the token is, or ErrToken.
func (t *Tokens) Check(token string) (User, error) {
	dot := strings.LastIndexByte(token, '.')
	if dot < len(tokenHeader) || token[:len(tokenHeader)] != tokenHeader {
		return User{}, ErrToken
	}
	if !hmac.Equal([]byte(token[dot+1:]), t.sum(token[:dot])) {
		return User{}, ErrToken
	}
	var c claims
	body, err := tokenCoding.DecodeString(token[len(tokenHeader):dot])
	if err != nil || json.Unmarshal(body, &c) != nil {
		return User{}, ErrToken
	}
	u := User{ID: c.Subject, Name: c.Name, Role: c.Role, Until: time.Unix(c.Expires, 0)}
	if c.Use != accessUse || !validID(u.ID) || !u.Role.known() || !t.now().Before(u.Until) {
		return User{}, ErrToken
	}
	return u, nil
}

// sum is the signature, as it is written: decoded, several texts would be the same.
func (t *Tokens) sum(text string) []byte {
	m := hmac.New(sha256.New, t.key)
	m.Write([]byte(text))
	return tokenCoding.AppendEncode(nil, m.Sum(nil))
}
