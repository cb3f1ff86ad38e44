package redact

import (
	"net/url"
	"strings"
	"testing"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		// Nothing to hide.
		"":                                 "",
		"off":                              "off",
		"redis:x":                          "redis:x",
		"cache:6379":                       "cache:6379",
		"me@db":                            "me@db",
		"http://log:8081":                  "http://log:8081",
		"nats://broker:4222?capacity=2000": "nats://broker:4222?capacity=2000",
		"kafka://a:9092,b:9092?full=wait":  "kafka://a:9092,b:9092?full=wait",
		"cassandra:a:9042,b/k":             "cassandra:a:9042,b/k",
		"cassandra://a:9042,b:9042/k?replication=3": "cassandra://a:9042,b:9042/k?replication=3",
		"postgres://me@db:5432/x?sslmode=disable":   "postgres://me@db:5432/x?sslmode=disable",
		"postgres://[::1]:5432/x":                   "postgres://[::1]:5432/x",
		"host=db user=me passfile=/run/pg":          "host=db user=me passfile=/run/pg",

		// Passwords of URLs.
		"postgres://me:secret@db/x":          "postgres://me:xxxxx@db/x",
		"postgres://me:secret@a:1,b:2/x":     "postgres://me:xxxxx@a:1,b:2/x",
		"postgres://me:se:cret@db/x":         "postgres://me:xxxxx@db/x",
		"postgres://me:se@secret@db/x":       "postgres://me:xxxxx@db/x",
		"postgres://me:se%2Fcret@db/x%20y":   "postgres://me:xxxxx@db/x%20y",
		"redis://:secret@[::1]:6379":         "redis://:xxxxx@[::1]:6379",
		"redis://u:secret@":                  "redis://u:xxxxx@",
		"redis://u:secret@cache/#fragment":   "redis://u:xxxxx@cache/#...",
		"postgresql://u:secret@/x?host=/tmp": "postgresql://u:xxxxx@/x?host=/tmp",

		// Secrets in queries.
		"postgres:///x?password=secret":                    "postgres:///x?password=xxxxx",
		"postgres://db/x?a=1&PassWord=secret&b=2":          "postgres://db/x?a=1&PassWord=xxxxx&b=2",
		"postgres://u@db/x?sslpassword=secret&sslmode=no":  "postgres://u@db/x?sslpassword=xxxxx&sslmode=no",
		"postgres://db/x?pass%77ord=secret":                "postgres://db/x?pass%77ord=xxxxx",
		"postgres://db/x?pa%zzssword=secret":               "postgres://db/x?pa%zzssword=xxxxx",
		"postgres://db/x?password=se%zzcret":               "postgres://db/x?password=xxxxx",
		"postgres://db/x?password=one&secret&b=2":          "postgres://db/x?password=xxxxx&xxxxx&b=2",
		"postgres://db/x?password=one;secret":              "postgres://db/x?password=xxxxx",
		"postgres://db/x?a=1;password=secret":              "postgres://db/x?a=xxxxx",
		"postgres://db/x?password=one#secret":              "postgres://db/x?password=xxxxx#...",
		"nats://broker:4222?token=secret&capacity=2":       "nats://broker:4222?token=xxxxx&capacity=2",
		"postgres://u:one@db/x?password=secret&api_key=se": "postgres://u:xxxxx@db/x?password=xxxxx&api_key=xxxxx",

		// Lists of settings.
		"host=db password=secret":                   "host=db password=xxxxx",
		"password=secret host=db":                   "password=xxxxx host=db",
		"host=db password = secret user=me":         "host=db password = xxxxx user=me",
		"password='it is a=secret' host=db":         "password=xxxxx host=db",
		`password='it\'s a=secret' host=db`:         "password=xxxxx host=db",
		`password="it is a=secret" host=db`:         "password=xxxxx host=db",
		"password='no end a=secret host=db":         "password=xxxxx",
		"password=one secret host=db":               "password=xxxxx host=db",
		"password=one&a=secret;b=secret host=db":    "password=xxxxx host=db",
		"Host=db;Password=secret;User=me":           "Host=db;Password=xxxxx",
		"host=db\tsslpassword=secret\npassword=two": "host=db\tsslpassword=xxxxx\npassword=xxxxx",
		"password=": "password=xxxxx",

		// What cannot be read.
		"postgres://u:se%cret@db/x":         "postgres://...",
		"postgres://u:secret@[/x":           "postgres://...",
		"postgres://u:secret@db:port/x":     "postgres://...",
		"postgres://u:sec/ret@db/x":         "postgres://...",
		"postgres://u:12/secret@db/x":       "postgres://...",
		"postgres://u:12?secret@db/x":       "postgres://...",
		"postgres://u:12#secret@db/x":       "postgres://...",
		"redis://:secret":                   "redis://...",
		"postgres://u:one@db:p/x?token=two": "postgres://...",
		"u:secret@db:5432/x":                "u:xxxxx@db:5432/x",
		"postgres:u:secret@db/x":            "postgres:xxxxx@db/x",
		"postgres:/u:secret@db/x":           "postgres:xxxxx@db/x",
		"//u:secret@db/x":                   "//u:xxxxx@db/x",
		"1p://u:secret@db/x":                "1p:xxxxx@db/x",
		"db/x?password=secret&a=b":          "db/x?password=xxxxx",
	} {
		if got := Address(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}

// However a password is put into an address, escaped or not, its beginning is not
// shown; and in front of a host its end is not either.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"", "a", "/", "?", "#", "@", ":", "&x=", ";", " a=", "'", `\`, "%", "1/", "\x00", "://"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, password string) {
		const begin, end = "q7Zk", "W4vj"
		password = begin + password + end
		for _, in := range []string{
			(&url.URL{Scheme: "postgres", User: url.UserPassword("u", password), Host: "h:1", Path: "/x"}).String(),
			"postgres://u:" + password + "@h:1/x",
			"redis://:" + password + "@h",
			"u:" + password + "@h",
		} {
			if got := Address(in); strings.Contains(got, begin) || strings.Contains(got, end) {
				t.Errorf("%q is shown as %q", in, got)
			}
		}
		for _, in := range []string{
			"postgres://h/x?a=b&password=" + password,
			"postgres://h/x?password=" + url.QueryEscape(password) + "&a=b",
			"host=h password=" + password,
			"password='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password) + "' host=h",
		} {
			if got := Address(in); strings.Contains(got, begin) {
				t.Errorf("%q is shown as %q", in, got)
			}
		}
	})
}
