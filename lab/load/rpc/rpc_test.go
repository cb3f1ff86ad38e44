package rpc

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const shop = `syntax = "proto3";
package shop.v1;
message Item { int64 id = 1; string display_name = 2; repeated Item parts = 3; bool sold = 4; }
message Query { int32 first = 1; }
service Catalogue { rpc Get(Query) returns (Item); rpc Put(Item) returns (Item); }
`

func method(t testing.TB, path string) *Method {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shop.proto")
	if err := os.WriteFile(file, []byte(shop), 0o600); err != nil {
		t.Fatal(err)
	}
	services, err := Compile([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	m, err := services.Method(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMessagesThereAndBack(t *testing.T) {
	t.Parallel()
	m := method(t, "shop.v1.Catalogue/Put")
	frame, err := m.Encode(nil, []byte(`{"id": "7", "displayName": "é\"", "parts": [{"id": 8}]}`))
	if err != nil {
		t.Fatal(err)
	}
	back, err := m.Decode([]byte("> "), frame)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(back), " ", "")
	if want := `>{"id":"7","displayName":"é\"","parts":[{"id":"8","displayName":"","parts":[],"sold":false}],"sold":false}`; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	empty, err := m.Encode(nil, nil)
	if err != nil || string(empty) != "\x00\x00\x00\x00\x00" {
		t.Errorf("no message is %q, %v", empty, err)
	}
}

// files are .proto files in a directory.
func files(t *testing.T, texts map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range texts {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(`syntax = "proto3"; `+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// compiled are those that are named of them.
func compiled(t *testing.T, dir string, names ...string) *Services {
	t.Helper()
	var paths []string
	for _, name := range names {
		paths = append(paths, filepath.Join(dir, name))
	}
	services, err := Compile(paths)
	if err != nil {
		t.Fatalf("%q: %v", names, err)
	}
	return services
}

// A file is the same one whatever it is called, and two of one name are two.
func TestAFileIsReadOnce(t *testing.T) {
	t.Parallel()
	dir := files(t, map[string]string{
		"shop/v1/shop.proto":   `package shop.v1; import "shop/v1/item.proto"; import "other.proto"; service S { rpc Get(Item) returns (Other); }`,
		"shop/v1/item.proto":   `package shop.v1; import "common.proto"; message Item { Common common = 1; }`,
		"shop/v1/other.proto":  `package shop.v1; import "item.proto"; message Other { Item item = 1; }`,
		"shop/v1/common.proto": `package shop.v1; message Common { int64 a = 1; }`,
		"shop/v2/item.proto":   `package shop.v2; import "common.proto"; message Item { Common common = 1; }`,
		"shop/v2/common.proto": `package shop.v2; message Common { int64 b = 1; }`,
		"shop/v2/shop.proto":   `package shop.v2; import "item.proto"; service S { rpc Get(Item) returns (Item); }`,
	})
	if err := os.Symlink(filepath.Join(dir, "shop/v1/item.proto"), filepath.Join(dir, "linked.proto")); err != nil {
		t.Fatal(err)
	}
	both := compiled(t, dir, "shop/v1/shop.proto", "shop/v1/item.proto", "shop/v2/shop.proto", "shop/v2/item.proto", "shop/v1/shop.proto", "linked.proto")
	for path, message := range map[string]string{"shop.v1.S/Get": `{"common": {"a": 7}}`, "shop.v2.S/Get": `{"common": {"b": 7}}`} {
		m, err := both.Method(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Encode(nil, []byte(message)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Mistakes have the file as it was given, with line and column.
func TestMistakesHavePlaces(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`import "nothing.proto";`:                       `/shop.proto:1:27: could not resolve path "nothing.proto"`,
		`import "shop.proto";`:                          "/shop.proto: cycle found in imports",
		`message A { B b = 1; }`:                        "/shop.proto:1:32: field A.b: unknown type B",
		`message A {`:                                   "/shop.proto:1:31: syntax error",
		`import "second.proto"; message Second {}`:      `symbol "Second" already defined`,
		`import "google/protobuf/any.proto"; import ""`: "/shop.proto:1:",
	} {
		dir := files(t, map[string]string{"shop.proto": text, "second.proto": "message Second {}"})
		if _, err := Compile([]string{filepath.Join(dir, "shop.proto")}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	if _, err := Compile([]string{"/no/such.proto"}); err == nil || !strings.Contains(err.Error(), "/no/such.proto: no such file") {
		t.Errorf("got %v", err)
	}
}

// An Any has what the files describe and what they import, there and back.
func TestAny(t *testing.T) {
	t.Parallel()
	dir := files(t, map[string]string{
		"event.proto": `package e; import "google/protobuf/any.proto"; import "item.proto"; message Event { google.protobuf.Any of = 1; } service S { rpc Put(Event) returns (Event); }`,
		"item.proto":  `package e; message Item { int64 id = 1; google.protobuf.Any next = 2; } import "google/protobuf/any.proto";`,
		"apart.proto": `package e; message Apart { int64 id = 1; }`,
	})
	all := compiled(t, dir, "event.proto", "apart.proto")
	m, err := all.Method("e.S/Put")
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{
		`{"of":{"@type":"type.googleapis.com/e.Item","id":"7","next":{"@type":"type.googleapis.com/e.Item","id":"8"}}}`,
		`{"of":{"@type":"type.googleapis.com/e.Apart","id":"7"}}`,
		`{"of":{"@type":"type.googleapis.com/google.protobuf.Duration","value":"1.500s"}}`,
	} {
		frame, err := m.Encode(nil, []byte(message))
		if err != nil {
			t.Errorf("%s: %v", message, err)
			continue
		}
		if back, err := m.Decode(nil, frame); err != nil || strings.ReplaceAll(string(back), " ", "") != message {
			t.Errorf("%s is %s, %v", message, back, err)
		}
	}
	m, err = compiled(t, dir, "event.proto").Method("e.S/Put")
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Encode(nil, []byte(`{"of":{"@type":"type.googleapis.com/e.Apart","id":"7"}}`))
	if want := "no message of that name is described; add the .proto file that describes it under proto"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Files that are laid out by their packages import each other from where the packages begin.
func TestImportsFromAbove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"shop/v1/shop.proto":     `syntax = "proto3"; package shop.v1; import "shop/common/item.proto"; import "beside.proto"; service S { rpc Get(shop.common.Item) returns (Beside); }`,
		"shop/v1/beside.proto":   `syntax = "proto3"; package shop.v1; message Beside {}`,
		"shop/common/item.proto": `syntax = "proto3"; package shop.common; message Item { int64 id = 1; }`,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	services, err := Compile([]string{filepath.Join(dir, "shop/v1/shop.proto")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := services.Method("shop.v1.S/Get"); err != nil {
		t.Error(err)
	}
	read, err := Sources([]string{filepath.Join(dir, "shop/v1/shop.proto")})
	want := []string{filepath.Join(dir, "shop/common/item.proto"), filepath.Join(dir, "shop/v1/beside.proto"), filepath.Join(dir, "shop/v1/shop.proto")}
	if err != nil || !slices.Equal(read, want) {
		t.Errorf("got %q, %v, want %q", read, err, want)
	}
}

func TestFramesThatAreNone(t *testing.T) {
	t.Parallel()
	m := method(t, "shop.v1.Catalogue/Get")
	for frame, want := range map[string]string{
		"": "has no message", "\x01\x00\x00\x00\x00": "is compressed", "\x00\x00\x00\x00\x02a": "says it is 2", "\x00\x00\x00\x00\x01\xff": "is no shop.v1.Item",
	} {
		if _, err := m.Decode(nil, []byte(frame)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", frame, err, want)
		}
	}
	if _, err := m.Encode(nil, []byte(`{"first": "x"}`)); err == nil || !strings.Contains(err.Error(), "the message of Get is not a shop.v1.Query") {
		t.Errorf("a text for a number: %v", err)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	grpc := func(code string) http.Header {
		return http.Header{"Grpc-Status": {code}, "Grpc-Message": {"no%20such"}}
	}
	for _, c := range []struct {
		status          int
		header, trailer http.Header
		want            int
		said            string
	}{
		{200, nil, grpc("0"), 200, ""}, {200, nil, grpc("5"), 404, "NOT_FOUND: no such"}, {200, grpc("14"), nil, 503, "UNAVAILABLE: no such"},
		{502, nil, nil, 502, ""}, {200, nil, grpc("16"), 401, "UNAUTHENTICATED: no such"}, {200, nil, grpc("99"), 500, "99: no such"},
		{200, nil, nil, 0, ""},
	} {
		got, err := Status(c.status, c.header, c.trailer)
		if got != c.want || (err != nil) != (c.want == 0) || Explain(c.header, c.trailer) != c.said {
			t.Errorf("%+v is %d, %v, %q", c, got, err, Explain(c.header, c.trailer))
		}
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		time.Nanosecond: "1u", 5 * time.Second: "5000000u", 100 * time.Second: "100000m", 10_000 * time.Hour: "99999999m",
	} {
		if got := Timeout(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	m := method(f, "shop.v1.Catalogue/Get")
	f.Add([]byte("\x00\x00\x00\x00\x02\x08\x07"))
	f.Fuzz(func(_ *testing.T, frame []byte) {
		_, _ = m.Decode(nil, frame) // no frame makes a panic
	})
}
