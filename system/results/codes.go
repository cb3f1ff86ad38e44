package results

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
)

// codeAlphabet has 32 characters that are hard to misread: the digits and the
// capitals without I, L, O and U. One character carries five bits.
const codeAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// codeLength gives 60 bits. A guess names an id and a code, so at a million
// guesses a second the first hit takes 36,000 years on average.
const codeLength = 12

// Bounds of a code. Only what is compared counts for the first: letters and digits.
const (
	MinCodeChars = 8
	MaxCodeBytes = 64
)

// FoldedCode is a code in its canonical form, the one that is compared and counted:
// capitals, without the spaces and hyphens that people put between them, filled up with
// zeros.
type FoldedCode struct {
	chars [MaxCodeBytes]byte
	n     int  // characters
	long  bool // there were more than fit
}

// FoldCode brings a code into its canonical form.
func FoldCode(code []byte) (f FoldedCode) {
	for _, c := range code {
		switch {
		case c == ' ' || c == '-':
			continue
		case f.n == MaxCodeBytes:
			f.long = true
			return f
		case 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		}
		f.chars[f.n] = c
		f.n++
	}
	return f
}

// Bytes returns the characters that count. They are f's.
func (f *FoldedCode) Bytes() []byte { return f.chars[:f.n] }

// CodeOpens reports whether the given code is the stored one. Its time does not depend
// on where they differ. A code that is too short or too long opens nothing, however it
// came into the store.
func CodeOpens(given, stored []byte) bool {
	g, s := FoldCode(given), FoldCode(stored)
	same := subtle.ConstantTimeCompare(g.chars[:], s.chars[:]) == 1
	return same && g.n >= MinCodeChars && g.n == s.n && !g.long && !s.long
}

// RandomCode returns a new access code from the system's secure random source.
func RandomCode() string {
	var bits [8]byte
	// Read never fails: it ends the program if the system has no random source.
	_, _ = rand.Read(bits[:])
	return encodeCode(binary.LittleEndian.Uint64(bits[:]))
}

// codeKey is the key of a generated data set's codes.
type codeKey [sha256.Size]byte

func newCodeKey(seed uint64) codeKey {
	const purpose = "exam results, access codes, 1:"
	return sha256.Sum256(binary.LittleEndian.AppendUint64([]byte(purpose), seed))
}

// code derives a student's code: SHA-256 of key and id. The input has a fixed
// length and most of the hash is dropped, so codes of other students do not help
// to compute this one.
func (k *codeKey) code(id int64) string {
	var input [sha256.Size + 8]byte
	copy(input[:], k[:])
	binary.LittleEndian.PutUint64(input[sha256.Size:], uint64(id))
	sum := sha256.Sum256(input[:])
	return encodeCode(binary.LittleEndian.Uint64(sum[:8]))
}

func encodeCode(bits uint64) string {
	var code [codeLength]byte
	for i := range code {
		code[i] = codeAlphabet[bits&31]
		bits >>= 5
	}
	return string(code[:])
}
