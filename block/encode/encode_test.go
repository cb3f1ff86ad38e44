package encode

import (
	"encoding/json"
	"strings"
	"testing"
)

// Every string is written as encoding/json writes it, wherever in it a character stands.
func TestString(t *testing.T) {
	t.Parallel()
	for char := range 256 {
		for length := range 20 {
			for at := range length {
				text := strings.Repeat("a", at) + string([]byte{byte(char)}) + strings.Repeat("\x7f", length-at-1)
				want, err := json.Marshal(text)
				if err != nil {
					t.Fatal(err)
				}
				if got := String([]byte("before"), text); string(got) != "before"+string(want) {
					t.Fatalf("%q: got %s, want %s", text, got, want)
				}
			}
		}
	}
}

func FuzzString(f *testing.F) {
	for _, text := range []string{"", "plain", "\x00\x1f\b\f\n\r\t\"\\/<>&'", "\u2028\u2029\u00e9\ufffd", "\xff\xc3\x28\xe2\x80", "🌶 ሽሮ, and eight more", "12345678<12345678\u202812345678\xf0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := String(nil, text); string(got) != string(want) {
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
