package results

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

func TestParseID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1": 1, "9": 9, "10": 10, "674823": 674823, "999999999999999999": MaxID,
	} {
		if got, err := ParseID(text); err != nil || got != want {
			t.Errorf("ParseID(%q): got %d, %v, want %d", text, got, err, want)
		}
		if got, err := ParseID([]byte(text)); err != nil || got != want {
			t.Errorf("ParseID of bytes %q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "0", "00", "01", "007", "+1", "-1", " 1", "1 ", "1.0", "1e3", "0x1", "12a", "１２", "1_000", "\x001",
		"1000000000000000000", "9223372036854775808", strings.Repeat("9", 5000),
	} {
		got, err := ParseID(text)
		if !errors.Is(err, ErrMalformedID) {
			t.Errorf("ParseID(%.20q): got %d, %v, want ErrMalformedID", text, got, err)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("ParseID(%.20q): the error has %d bytes", text, len(err.Error()))
		}
	}
}

// FuzzParseID: what is accepted is exactly what formats back to itself.
func FuzzParseID(f *testing.F) {
	f.Add("1")
	f.Add("0")
	f.Add("99999999999999999999")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseID(text)
		if err == nil && (id < 1 || id > MaxID || strconv.FormatInt(id, 10) != text) {
			t.Errorf("ParseID(%q): got %d", text, id)
		}
		plain, plainErr := strconv.ParseInt(text, 10, 64)
		canonical := plainErr == nil && plain > 0 && plain <= MaxID && strconv.FormatInt(plain, 10) == text
		if canonical != (err == nil) {
			t.Errorf("ParseID(%q): got %v, but canonical is %t", text, err, canonical)
		}
	})
}
