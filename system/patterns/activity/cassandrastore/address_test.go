package cassandrastore

import (
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
