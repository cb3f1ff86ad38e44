package export

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"loadstone/system/results"
)

// Key is the secret behind all names of a tree. It is 32 random bytes, and is
// kept like a password: whoever has it can try out codes.
type Key [32]byte

// NewKey returns a new key from the system's secure random source.
func NewKey() (key Key) {
	// Read never fails: it ends the program if the system has no random source.
	_, _ = rand.Read(key[:])
	return key
}

// ParseKey reads 64 hexadecimal digits, with or without white space around them.
// The error does not quote them.
func ParseKey(text string) (key Key, err error) {
	text = strings.TrimSpace(text)
	if len(text) != hex.EncodedLen(len(key)) {
		return Key{}, fmt.Errorf("the key has %d characters: write %d hexadecimal digits", len(text), hex.EncodedLen(len(key)))
	}
	if _, err := hex.Decode(key[:], []byte(text)); err != nil {
		return Key{}, errors.New("the key has other characters than hexadecimal digits")
	}
	return key, nil
}

// Text returns the key as ParseKey reads it.
func (k Key) Text() string { return hex.EncodeToString(k[:]) }

// String keeps the key out of logs.
func (Key) String() string { return "(secret)" }

// GoString keeps the key out of logs.
func (Key) GoString() string { return "(secret)" }

// DefaultIterations makes a name take about a quarter of a millisecond: a country's
// students take minutes, and a guess takes as long. An edge function has
// milliseconds to spend.
const DefaultIterations = 1000

// Bounds of the iterations. More than the largest would take days.
const (
	minIterations = 1
	maxIterations = 1_000_000
)

// Namer makes names, see the package comment.
type Namer struct {
	Key Key
	// Iterations of the slow function.
	Iterations int
}

func (n Namer) validate() error {
	var errs []error
	if n.Key == (Key{}) {
		errs = append(errs, errors.New("there is no key: names without one can be found by trying out codes"))
	}
	if n.Iterations < minIterations || n.Iterations > maxIterations {
		errs = append(errs, fmt.Errorf("iterations is %d, must be %d to %d", n.Iterations, minIterations, maxIterations))
	}
	return errors.Join(errs...)
}

// alphabetChars of names: in order, so that sorted names are sorted bytes, and with no
// letter that looks like a digit. No case, for stores that have none.
const alphabetChars = "0123456789abcdefghjkmnpqrstvwxyz"

var alphabet = base32.NewEncoding(alphabetChars).WithPadding(base32.NoPadding)

// nameBytes gives 160 bits: 32 characters.
const nameBytes = 20

// Name returns the name of a student's files.
func (n Namer) Name(id int64, code string) (string, error) {
	if err := n.validate(); err != nil {
		return "", err
	}
	folded := results.FoldCode([]byte(code))
	slow, err := pbkdf2.Key(sha256.New, string(folded.Bytes()), strconv.AppendInt(nil, id, 10), n.Iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive a name: %w", err)
	}
	mac := hmac.New(sha256.New, n.Key[:])
	mac.Write(slow)
	return alphabet.EncodeToString(mac.Sum(nil)[:nameBytes]), nil
}

// Path returns the path of a student's file below the tree's root, with slashes:
// what a link ends with.
func (n Namer) Path(id int64, code string, format Format) (string, error) {
	name, err := n.Name(id, code)
	if err != nil {
		return "", err
	}
	return pathOf(name, format), nil
}

// pathOf spreads names over 32 times 32 directories: a country's students give
// about 1,300 files in each, which every file system bears.
func pathOf(name string, format Format) string {
	return name[:1] + "/" + name[1:2] + "/" + name + "." + string(format)
}
