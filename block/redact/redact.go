// Package redact makes the addresses of databases, caches and brokers fit for logs
// and error messages.
//
// It is for addresses that a person has written, so also for those that are wrong: a
// password with a / in it that was not escaped ends up in what looks like a path. So
// it reads the text rather than what a parser makes of it, and where it cannot tell
// it hides too much. It does not check addresses, and it knows no kind of server: an
// address that is a file's name is not for it, since a name may have : and @ in it.
package redact

import (
	"net/url"
	"regexp"
	"strings"
)

// mask stands for what is hidden, as url.URL.Redacted has it.
const mask = "xxxxx"

// rest stands for all that follows the scheme of an address that cannot be read.
const rest = "..."

var (
	scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)
	// secret are names of settings that no one else may see. Files that hold
	// secrets, such as passfile and sslkey, are none.
	secret = regexp.MustCompile(`(?i)passw|passphrase|pass$|pwd|secret|token|api_?key`)
	// setting begins a value. Anything may be before the name, and white space
	// around the equals sign.
	setting = regexp.MustCompile(`(\w+)\s*=\s*`)
	// next begins the setting behind a value.
	next = regexp.MustCompile(`\s+\w+\s*=`)
	// list is how a list of settings begins.
	list = regexp.MustCompile(`^\s*\w+\s*=`)
)

// Address returns an address without its secrets: the password of a URL
// (postgres://USER:PASSWORD@HOST), of its query (?password=...) and of a list of
// settings (host=... password=...). What has none comes back as it is, and a URL
// that cannot be read as its scheme alone.
func Address(text string) string {
	if before, after, ok := strings.Cut(text, "://"); ok && scheme.MatchString(before) {
		return before + "://" + ofURL(before, after)
	}
	listed := ofSettings(text)
	if list.MatchString(text) {
		return listed
	}
	// No URL, because its slashes or its scheme are missing: USER:PASSWORD@HOST.
	colon, at := strings.Index(listed, ":"), strings.LastIndex(listed, "@")
	if colon < 0 || at < colon {
		return listed
	}
	return listed[:colon+1] + mask + listed[at:]
}

// ofURL is for what follows the scheme and its slashes.
func ofURL(scheme, text string) string {
	authority, tail := text, ""
	if i := strings.IndexAny(text, "/?#"); i >= 0 {
		authority, tail = text[:i], text[i:]
	}
	user, hosts, found := "", authority, false
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		user, hosts, found = authority[:i], authority[i+1:], true
	}
	// An @ behind the host is the end of a password with one of /?# in it.
	if strings.Contains(tail, "@") {
		return rest
	}
	for host := range strings.SplitSeq(hosts, ",") { // the standard library takes only one
		if _, err := url.Parse(scheme + "://" + user + "@" + host + tail); err != nil {
			return rest
		}
	}
	if name, _, ok := strings.Cut(user, ":"); ok {
		user = name + ":" + mask
	}
	if found {
		user += "@"
	}
	// No address has a fragment: this is the end of something with a # in it.
	tail, _, hidden := strings.Cut(tail, "#")
	if path, query, ok := strings.Cut(tail, "?"); ok {
		tail = path + "?" + ofQuery(query)
	}
	if hidden {
		tail += "#" + rest
	}
	return user + hosts + tail
}

// ofQuery hides values of a query. What follows a secret and is no setting is part
// of the secret, which has an & in it.
func ofQuery(query string) string {
	pieces := strings.Split(query, "&")
	hiding := false
	for i, piece := range pieces {
		name, _, ok := strings.Cut(piece, "=")
		switch {
		case ok:
			if hiding = isSecret(name, piece); hiding {
				pieces[i] = name + "=" + mask
			}
		case hiding:
			pieces[i] = mask
		}
	}
	return strings.Join(pieces, "&")
}

// isSecret tells the secrets of a query. A name that cannot be read may be one, and
// so may all of a piece in which ; separates settings: some parsers do that.
func isSecret(name, piece string) bool {
	plain, err := url.QueryUnescape(name)
	return err != nil || secret.MatchString(plain) || strings.Contains(piece, ";") && secret.MatchString(piece)
}

// ofSettings hides values of a list such as "host=db password='it is' user=me". It
// hides a value to its closing quotation mark at least, and then to the next setting.
func ofSettings(text string) string {
	var shown strings.Builder
	for {
		at := setting.FindStringSubmatchIndex(text)
		if at == nil {
			return shown.String() + text
		}
		name, value := text[at[2]:at[3]], text[at[1]:]
		shown.WriteString(text[:at[1]])
		text = value
		if !secret.MatchString(name) {
			continue
		}
		shown.WriteString(mask)
		end := quoted(value)
		if i := next.FindStringIndex(value[end:]); i != nil {
			text = value[end+i[0]:]
		} else {
			text = ""
		}
	}
}

// quoted is the length of the quoted text that a value begins with, or 0. Without a
// closing mark it is all.
func quoted(value string) int {
	if value == "" || !strings.ContainsRune(`'"`, rune(value[0])) {
		return 0
	}
	for i := 1; i < len(value); i++ {
		switch value[i] {
		case '\\':
			i++ // and what it escapes
		case value[0]:
			return i + 1
		}
	}
	return len(value)
}
