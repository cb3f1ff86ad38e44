package load

import (
	"slices"
	"testing"

	"loadstone/lab/load/feed"
)

func TestFilesAreThoseThatAreRead(t *testing.T) {
	upload := []Step{{Request: Request{Multipart: []FormField{{Name: "a", File: "/upload"}, {Name: "b", Value: "/text"}}}}}
	p := Plan{
		TLS: TLS{CAFile: "/ca"}, Protos: []string{"/a.proto"},
		Scenarios: []Scenario{
			{Feed: map[string]feed.Feed{"user": {CSV: &feed.File{Path: "/users"}}, "n": {Uniform: &[2]int64{1, 2}}}, Steps: upload},
			{Feed: map[string]feed.Feed{"user": {JSONL: &feed.File{Path: "/lines"}}, "again": {CSV: &feed.File{Path: "/users"}}}, Log: &AccessLog{Path: "/log"}},
			{WebSocket: &WebSocket{Login: &Login{Request: Request{Multipart: []FormField{{File: "/photo"}}}}}},
		},
		Setup: &Scenario{Steps: []Step{{Request: Request{Multipart: []FormField{{File: "/first"}}}}}},
	}
	want := []string{"/a.proto", "/ca", "/first", "/lines", "/log", "/photo", "/upload", "/users"}
	if got := p.Files(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	below, err := p.Below("/carried")
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		want[i] = "/carried" + want[i]
	}
	if got := below.Files(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := p.Files(); slices.Contains(got, want[0]) {
		t.Errorf("the plan itself has %q", got)
	}
	relative := Plan{Protos: []string{"a.proto"}}
	t.Chdir("/")
	if below, err := relative.Below("/carried"); err != nil || below.Protos[0] != "/carried/a.proto" {
		t.Errorf("got %q, %v", below.Protos, err)
	}
	if got := (&Plan{}).Files(); got != nil {
		t.Errorf("got %q of a plan that reads nothing", got)
	}
}
