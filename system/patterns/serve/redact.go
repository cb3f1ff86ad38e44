package serve

import "net/url"

// redact hides the password in an address; what is none stays as it is.
func redact(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}
	return u.Redacted()
}
