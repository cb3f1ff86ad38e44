package feed

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math"
	"time"
)

// Start is the position before the newest post.
var Start = Position{math.MaxInt64, math.MaxInt64}

// Cursors turn positions into texts that clients hand back, and only those back into
// positions. A cursor names a place in the order and no number of posts: what is inserted or
// deleted meanwhile moves nothing, so a walk misses none of the posts that were there all the
// while, and has none twice.
//
// Signing keeps clients from making cursors up, with which they would ask for what no page
// ever ended with; and a cursor ends, so that the order may be changed some day.
type Cursors struct {
	key []byte
	ttl time.Duration
	now func() time.Time
}

// NewCursors returns cursors that are good for ttl, or up to an hour longer.
func NewCursors(key []byte, ttl time.Duration) *Cursors {
	return &Cursors{key: key, ttl: ttl, now: time.Now}
}

const (
	cursorBody = 3 * 8 // published, id, and the hour in which it expires
	cursorMAC  = 16    // of the 32 bytes of SHA-256: out of reach for guessing
)

// cursorForm refuses texts that differ and mean the same, but for line breaks, which it skips.
var cursorForm = base64.RawURLEncoding.Strict()

// Write returns the cursor of a position. Within an hour it is always the same text, so that
// a page that has not changed has the same bytes.
func (c *Cursors) Write(p Position) string {
	raw := make([]byte, 0, cursorBody+cursorMAC)
	expires := c.now().Add(c.ttl).Truncate(time.Hour).Add(time.Hour)
	for _, n := range []int64{p.Published, p.ID, expires.Unix()} {
		raw = binary.BigEndian.AppendUint64(raw, uint64(n))
	}
	return cursorForm.EncodeToString(append(raw, c.sign(raw)...))
}

// Read returns the position of a cursor; that of no text is Start. The error wraps ErrCursor
// or ErrExpired.
func (c *Cursors) Read(text []byte) (Position, error) {
	if len(text) == 0 {
		return Start, nil
	}
	var raw [cursorBody + cursorMAC]byte
	if len(text) != cursorForm.EncodedLen(len(raw)) {
		return Position{}, ErrCursor
	}
	// Fewer bytes: there were line breaks.
	if n, err := cursorForm.Decode(raw[:], text); err != nil || n != len(raw) || !hmac.Equal(raw[cursorBody:], c.sign(raw[:cursorBody])) {
		return Position{}, ErrCursor
	}
	number := func(at int) int64 { return int64(binary.BigEndian.Uint64(raw[at:])) }
	if c.now().Unix() >= number(16) {
		return Position{}, ErrExpired
	}
	return Position{number(0), number(8)}, nil
}

func (c *Cursors) sign(body []byte) []byte {
	mac := hmac.New(sha256.New, c.key)
	mac.Write(body)
	return mac.Sum(nil)[:cursorMAC]
}
