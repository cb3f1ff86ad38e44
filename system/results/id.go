package results

import "fmt"

// MaxID is the largest id: 18 decimal digits, so that an id always fits an
// int64 without an overflow check.
const MaxID = 999_999_999_999_999_999

const maxIDDigits = 18

// ParseID reads an id: 1 to 18 decimal digits, nothing else.
//
// Leading zeros are refused, and with them 0 itself, which is no id. Reading 007
// as 7 would give one student many addresses: caches would hold the page many
// times and a limit per address would not hold. The error wraps ErrMalformedID.
func ParseID[T ~string | ~[]byte](text T) (int64, error) {
	if len(text) == 0 || len(text) > maxIDDigits || text[0] == '0' {
		return 0, malformed(text)
	}
	var id int64
	for i := range len(text) {
		digit := text[i] - '0'
		if digit > 9 {
			return 0, malformed(text)
		}
		id = id*10 + int64(digit)
	}
	return id, nil
}

// malformed quotes at most 32 bytes, for the text comes from anywhere and the
// error goes to logs.
func malformed[T ~string | ~[]byte](text T) error {
	const quoted = 32
	if len(text) > quoted {
		return fmt.Errorf("id %q... (%d bytes): %w", string(text[:quoted]), len(text), ErrMalformedID)
	}
	return fmt.Errorf("id %q: %w", string(text), ErrMalformedID)
}
