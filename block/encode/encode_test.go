package encode

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every string is written as encoding/json writes it, wherever in it a character stands.
func TestString(t *testing.T) {
	t.Parallel()
	for char := range 256 {
		for _, length := range []int{1, 2, 7, 8, 9, 15, 16, 20, 31, 32, 33, 47, 64, 69} {
			for at := range length {
				text := strings.Repeat("a", at) + string([]byte{byte(char)}) + strings.Repeat("\x7f", length-at-1)
				if got, want := String([]byte("before"), text), "before"+standard(t, text); string(got) != want {
					t.Fatalf("%q: got %s, want %s", text, got, want)
				}
			}
		}
	}
}

// Characters that are not plain stand beside each other as well.
func TestStringOfPairs(t *testing.T) {
	t.Parallel()
	for first := range 256 {
		for second := range 256 {
			for _, gap := range []int{0, 1, 6, 7, 31} {
				text := "." + string([]byte{byte(first)}) + strings.Repeat("?", gap) + string([]byte{byte(second)}) + strings.Repeat(" ", gap)
				if got, want := String(nil, text), standard(t, text); string(got) != want {
					t.Fatalf("%q: got %s, want %s", text, got, want)
				}
			}
		}
	}
}

func TestInt(t *testing.T) {
	t.Parallel()
	check := func(n int64) {
		if got := string(Int([]byte("before"), n)); got != "before"+strconv.FormatInt(n, 10) {
			t.Fatalf("%d: got %s", n, got)
		}
	}
	for n := range int64(20_000) { // each remainder that is divided
		check(n)
		check(n*together + 9999 - n%10_000)
	}
	for n := int64(1); n > 0; n *= 10 {
		for _, n := range []int64{n, n - 1, n + 1, 9 * n, math.MinInt64 + n, math.MaxInt64 - n} {
			check(n)
			check(-n)
		}
	}
	check(math.MinInt64)
	check(math.MaxInt64)
}

func standard(tb testing.TB, v any) string {
	tb.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

func FuzzString(f *testing.F) {
	for _, text := range []string{"", "plain", "\x00\x1f\b\f\n\r\t\"\\/<>&'", "\u2028\u2029\u00e9\ufffd", "\xff\xc3\x28\xe2\x80", "🌶 ሽሮ, and eight more", "12345678<12345678\u202812345678\xf0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := String(nil, text), standard(t, text); string(got) != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	})
}

// BenchmarkString compares prose with encoding/json.
func BenchmarkString(b *testing.B) {
	text := strings.Repeat("Since Monday the design team has measured the new canteen in Lyon. ", 60)
	b.Run("encode", func(b *testing.B) {
		var buffer []byte
		for b.Loop() {
			buffer = String(buffer[:0], text)
		}
		b.SetBytes(int64(len(text)))
	})
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			if _, err := json.Marshal(text); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(len(text)))
	})
}

func TestNegotiate(t *testing.T) {
	t.Parallel()
	offered := []string{"zstd", "br", "gzip"}
	const refused = "refused"
	for accept, want := range map[string]string{
		"":                                    "",
		"gzip":                                "gzip",
		"x-gzip":                              "gzip",
		"GZip ; Q=1.0":                        "gzip",
		"gzip, deflate, br, zstd":             "zstd",
		"gzip;q=0.9, br;q=0.8":                "gzip",
		"gzip;q=0.8, br;q=0.8":                "br",
		"gzip;q=0.001":                        "gzip",
		"gzip;q=0":                            "",
		"deflate":                             "",
		"*":                                   "zstd",
		"*;q=0.5, gzip":                       "gzip",
		"*;q=0.5, zstd;q=0":                   "br",
		"*;q=0":                               refused,
		"*;q=0, identity":                     "",
		"identity;q=0":                        refused,
		"identity;q=0, gzip":                  "gzip",
		"identity;q=0, gzip;q=0":              refused,
		"identity;q=0, compress":              refused,
		"identity, gzip":                      "gzip",
		"identity;q=1, gzip;q=0.5":            "",
		"identity;q=0.5, *;q=0":               "",
		"gzip;q=2":                            "",
		"gzip;q=1.001":                        "",
		"gzip;q=-1":                           "",
		"gzip;q=":                             "",
		"gzip;q=0.1234":                       "",
		"gzip;q=1e9":                          "",
		"gzip;level=9":                        "",
		"br;q=,gzip;;q=1,,;":                  "",
		"gzip;q=1.000, br;q=1":                "br",
		strings.Repeat("a,", 4000) + "gzip":   "gzip",
		"gzip;q=0.5,gzip;q=0.0, identity;q=0": refused,
	} {
		got, ok := Negotiate([]byte(accept), offered)
		if !ok {
			got = refused
		}
		if got != want {
			t.Errorf("%.60q: got %q, want %q", accept, got, want)
		}
	}
	if got, ok := Negotiate([]byte("gzip, *"), nil); got != "" || !ok {
		t.Errorf("nothing is offered: got %q and %v", got, ok)
	}
}

// Whatever a client writes, it gets a coding that is offered, and none that it did not name or refused.
func FuzzNegotiate(f *testing.F) {
	for _, accept := range []string{"", "gzip, deflate, br;q=0.9, *;q=0", "identity;q=0", "*;q=1e9", ";;;,,,q=", "gzip;q=0.0000"} {
		f.Add([]byte(accept))
	}
	offered := []string{"zstd", "br", "gzip"}
	f.Fuzz(func(t *testing.T, accept []byte) {
		coding, ok := Negotiate(accept, offered)
		named := strings.Contains(strings.ToLower(string(accept)), coding) || strings.Contains(string(accept), "*")
		if coding != "" && (!ok || !named || !slices.Contains(offered, coding)) {
			t.Errorf("%q gets %q and %v", accept, coding, ok)
		}
		if !ok && !strings.Contains(strings.ToLower(string(accept)), "identity") && !strings.Contains(string(accept), "*") {
			t.Errorf("%q refuses everything", accept)
		}
		if only, _ := Negotiate(accept, []string{coding}); coding != "" && only != coding {
			t.Errorf("%q gets %q, and %q if there is nothing else", accept, coding, only)
		}
	})
}
