package cql

import (
	"slices"
	"strings"
	"testing"
)

// A cluster's address has no user, and who writes one does not find it in a log.
func TestParseAddressQuotesNoSecret(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"cassandra://me:hidden@db/shop",
		"cassandra:me:hidden@db/shop",
		"cassandra://me:hid/den@db/shop",
		"cassandra:db/shop?password=hidden",
		"cassandra:db/shop?replication=1&password=hidden",
		"scylla://me:hidden@db/shop",
	} {
		got, err := ParseAddress(text)
		if err == nil || strings.Contains(err.Error(), "hid") || strings.Contains(err.Error(), "den") || !strings.Contains(err.Error(), AddressForm) {
			t.Errorf("%s: got %+v and %v, want it refused without its password", text, got, err)
		}
	}
}

func TestParseAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Address{
		"cassandra:db/shop":                             {[]string{"db"}, "shop", 1},
		"cassandra://10.0.0.1:9043,b/s_2?replication=3": {[]string{"10.0.0.1:9043", "b"}, "s_2", 3},
	} {
		got, err := ParseAddress(text)
		if err != nil || !slices.Equal(got.Hosts, want.Hosts) || got.Keyspace != want.Keyspace || got.Replication != want.Replication {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"scylla:db/shop":                    AddressForm,
		"cassandra:db":                      AddressForm,
		"cassandra:/shop":                   `has the host ""`,
		"cassandra:a,,b/shop":               `has the host ""`,
		"cassandra:a:0/shop":                `has the host "a:0"`,
		"cassandra:a b/shop":                `has the host "a b"`,
		"cassandra:db/Shop":                 `the keyspace is "Shop"`,
		"cassandra:db/x; DROP":              "the keyspace is",
		"cassandra:db/shop?replication=0":   "replication is 0",
		"cassandra:db/shop?replication=two": `replication is "two"`,
		"cassandra:db/shop?consistency=ONE": "only ?replication=N",
	} {
		if got, err := ParseAddress(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v, want %q", text, got, err, want)
		}
	}
	if err := (Config{}).Validate(); err == nil || !strings.Contains(err.Error(), "no host") || !strings.Contains(err.Error(), "timeouts") {
		t.Errorf("got %v", err)
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, seed := range []string{"cassandra:a/b", "cassandra://a:1,b/c?replication=3", "cassandra:[::1]/x", "cassandra:?/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := ParseAddress(text); err == nil && a.validate() != nil {
			t.Errorf("%q: %+v is accepted and not valid", text, a)
		}
	})
}
