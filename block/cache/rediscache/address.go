package rediscache

import (
	"cmp"
	"errors"
	"net"
	"net/url"

	"loadstone/block/redact"
)

// AddressForm says how the address of a Redis is written, for people.
const AddressForm = "redis://[USER:PASSWORD@]HOST[:PORT]"

// defaultPort is Redis's own.
const defaultPort = "6379"

// CheckAddress reports whether the text is the address of a Redis. Its error shows no
// password.
func CheckAddress(text string) error {
	_, err := parse(text)
	return err
}

// At is the configuration with where Redis is, and who is asking, from an address.
func (c Config) At(address string) (Config, error) {
	u, err := parse(address)
	if err != nil {
		return Config{}, err
	}
	c.Addr = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), defaultPort))
	c.Username = u.User.Username()
	c.Password, _ = u.User.Password()
	return c, nil
}

// parse takes AddressForm, with / or nothing behind it.
func parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "redis" || u.Hostname() == "":
		// Without the reason, which quotes the text and so the password.
		return nil, errors.New("redis must be " + AddressForm + ", with special characters of a password written as %XX")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("redis is " + redact.Address(text) + ", must be " + AddressForm +
			": there is no choice of a database, and there are no options; caches have keys of their own")
	}
	return u, nil
}
