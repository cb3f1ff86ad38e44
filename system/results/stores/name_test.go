package stores_test

import (
	"testing"

	"loadstone/system/results/stores"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"sqlite:a.db":    {"sqlite", "a.db"},
		"snapshot:/a:b":  {"snapshot", "/a:b"},
		"sqlite:":        {},
		"sqlite":         {},
		"":               {},
		"SQLITE:a":       {},
		"redis://u@h/y":  {},
		"postgres:x":     {},
		"postgres://x/y": {"postgres", "postgres://x/y"},
		"postgresql://":  {"postgres", "postgresql://"},
		"postgres://:x/": {},
	} {
		got, err := stores.Parse(text)
		if got.Kind != want[0] || got.Target != want[1] || (err == nil) != (want[0] != "") {
			t.Errorf("%q: got %+v and %v, want %q", text, got, err, want)
		}
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"sqlite:a@b":                       "sqlite:a@b",
		"snapshot:%zz":                     "snapshot:%zz",
		"redis:x":                          "redis:x",
		"":                                 "",
		"postgres://u:secret@h/d":          "postgres://u:xxxxx@h/d",
		"postgres:///d?password=secret":    "postgres:///d?password=xxxxx",
		"postgres://u:se%cret@h/d":         "postgres://...",
		"host=h password=secret":           "host=h password=xxxxx",
		"postgresql://u@h/d?sslmode=allow": "postgresql://u@h/d?sslmode=allow",
	} {
		if got := stores.Redact(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
