package cql

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"loadstone/block/redact"
)

// Scheme is what the address of a cluster begins with.
const Scheme = "cassandra:"

// AddressForm is how the address of a cluster is written.
const AddressForm = "cassandra:HOST[:PORT][,HOST[:PORT]...]/KEYSPACE[?replication=N]"

// maxReplication bounds the replicas of a row. Nobody has more than five.
const maxReplication = 9

// Address is where a keyspace is.
type Address struct {
	// Hosts are the nodes to ask for the others, with or without a port.
	Hosts []string
	// Keyspace has its name in small letters, digits and _.
	Keyspace string
	// Replication is on how many nodes each row is, from 1.
	Replication int
}

// ParseAddress reads AddressForm. Without replication there is one copy.
func ParseAddress(text string) (Address, error) {
	rest, ok := strings.CutPrefix(text, Scheme)
	before, query, asked := strings.Cut(rest, "?")
	hosts, keyspace, found := strings.Cut(strings.TrimPrefix(before, "//"), "/")
	// What has a user or a password is refused here, so that no part of one is quoted
	// further down.
	shown := redact.Address(text)
	if !ok || !found || shown != text || strings.Contains(text, "@") {
		return Address{}, fmt.Errorf("the cluster's address is %q; write %s", shown, AddressForm)
	}
	a := Address{Hosts: strings.Split(hosts, ","), Keyspace: keyspace, Replication: 1}
	if asked {
		values, err := url.ParseQuery(query)
		replication := values.Get("replication")
		if err != nil || len(values) != 1 || len(values["replication"]) != 1 {
			return Address{}, fmt.Errorf("the cluster's address has ?%s; only ?replication=N may be there", query)
		}
		if a.Replication, err = strconv.Atoi(replication); err != nil {
			return Address{}, fmt.Errorf("replication is %q; write a number from 1 to %d", replication, maxReplication)
		}
	}
	return a, a.validate()
}

var keyspaceForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)

func (a Address) validate() error {
	var errs []error
	if len(a.Hosts) == 0 {
		errs = append(errs, errors.New("the cluster's address has no host; write "+AddressForm))
	}
	for _, host := range a.Hosts {
		if !isHost(host) {
			errs = append(errs, fmt.Errorf("the cluster's address has the host %q; write HOST or HOST:PORT", host))
		}
	}
	if !keyspaceForm.MatchString(a.Keyspace) {
		errs = append(errs, fmt.Errorf("the keyspace is %q; write up to 48 small letters, digits and _, the first a letter", a.Keyspace))
	}
	if a.Replication < 1 || a.Replication > maxReplication {
		errs = append(errs, fmt.Errorf("replication is %d; write a number from 1 to %d", a.Replication, maxReplication))
	}
	return errors.Join(errs...)
}

// isHost reports whether the text is a name or an address of IPv4, or one with a
// port.
func isHost(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = text, "9042"
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && host != "" && !strings.ContainsAny(host, " /:@[]")
}
