package account

import (
	"path/filepath"
	"strings"
	"testing"
)

func roles() []Role { return []Role{"editor", "publisher"} }

// An account signs in with its password alone, and what it signed is good until that changes.
func TestFile(t *testing.T) {
	t.Parallel()
	f := File{filepath.Join(t.TempDir(), "accounts"), roles()}
	const password = "correct horse battery"
	if there, err := f.Set("ada", "publisher", password); err != nil || there {
		t.Fatalf("got %v and %v", there, err)
	}
	all, info, err := f.Load()
	if err != nil || info.Mode().Perm() != 0o600 || len(all.All()) != 1 {
		t.Fatalf("got %+v, %v and %v", all, info, err)
	}
	ada := all.Check("ada", password)
	if ada == nil || ada.Role != "publisher" || all.Check("ada", password+" ") != nil || all.Check("eve", password) != nil {
		t.Errorf("got %+v", ada)
	}
	key := []byte("key")
	signed := ada.Sign(key, "text")
	if signed != all.Find("ada").Sign(key, "text") || signed == ada.Sign(key, "other") || signed == ada.Sign([]byte("kez"), "text") {
		t.Error("a signature is another one, or that of another text or key")
	}
	if there, err := f.Set("ada", "editor", password); err != nil || !there {
		t.Fatalf("got %v and %v", there, err)
	}
	if all, _, err = f.Load(); err != nil || all.Find("ada").Role != "editor" || all.Find("ada").Sign(key, "text") == signed {
		t.Errorf("a new password left a signature good: %v", err)
	}
	if err := f.Remove("ada"); err != nil || f.Remove("ada") == nil {
		t.Errorf("remove: got %v, and nothing the second time", err)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	const hash = "$2a$04$abcdefghijklmnopqrstuuAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	for text, want := range map[string]string{
		"ada\n":              "line 1: write NAME ROLE HASH",
		"\nada king " + hash: `line 2: the role is "king": write editor or publisher`,
		"ada editor secret":  "no hash of bcrypt",
		"ada editor " + strings.Replace(hash, "04", "31", 1): "no hash of bcrypt",
		"Ada editor " + hash:                       "small letters",
		"api editor " + hash:                       `"api" is taken`,
		strings.Repeat("ada editor "+hash+"\n", 2): "line 2: there is a second ada",
		strings.Repeat("x", maxAccountsBytes+1):    "bytes of accounts",
	} {
		if _, err := Parse([]byte(text), roles()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q", text, err, want)
		}
	}
}
