package experiment_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/lab/experiment"
)

const shopProto = `syntax = "proto3";
package shop.v1;
message Query { int32 first = 1; }
message Item { int64 id = 1; }
service Catalogue {
  rpc Get(Query) returns (Item);
  rpc Watch(Query) returns (stream Item);
}
`

const callingLoad = `load:
  target: http://127.0.0.1:1
  protocol: h2
  proto: shop.proto
  scenarios:
    shop:
      executor: constant-vus
      vus: 1
      duration: 1s
      feed: {id: {uniform: [1, 9]}}
      steps:
        - {name: a, grpc: shop.v1.Catalogue/Get}
        - {name: b, grpc: {method: shop.v1.Catalogue/Get, message: '{"first": {id}}'}}
        - {name: c, grpc: {method: shop.v1.Catalogue/Get, message: '{"first": 7}'}}
`

// What .proto files say of calls is looked at before anything starts.
func TestCallsAreDescribed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		load, proto [2]string // what is replaced, and by what
		want        string
	}{
		{name: "good"},
		{name: "method", load: [2]string{"a, grpc: shop.v1.Catalogue/Get", "a, grpc: shop.v1.Catalogue/Gat"}, want: `load.yaml:12:27: the service shop.v1.Catalogue has no method "Gat": it has Get, Watch`},
		{name: "service", load: [2]string{"a, grpc: shop.v1", "a, grpc: shop.v2"}, want: "load.yaml:12:27: there is no service shop.v2.Catalogue: "},
		{name: "stream", load: [2]string{"a, grpc: shop.v1.Catalogue/Get", "a, grpc: shop.v1.Catalogue/Watch"}, want: "load.yaml:12:27: shop.v1.Catalogue/Watch is a stream, and a load makes unary calls"},
		{name: "message", load: [2]string{`"first": 7`, `"frist": 7`}, want: "load.yaml:14:68: the message of Get is not a shop.v1.Query: "},
		{name: "proto", proto: [2]string{"message Item {", "message Item"}, want: "/shop.proto:4:14: syntax error: "},
		{name: "no proto", load: [2]string{"shop.proto", "shap.proto"}, want: "load.yaml:4:10: there is no file "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "load.yaml")
			for file, text := range map[string]string{
				path: strings.Replace(callingLoad, c.load[0], c.load[1], 1), filepath.Join(dir, "shop.proto"): strings.Replace(shopProto, c.proto[0], c.proto[1], 1),
			} {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := experiment.LoadOnly(path)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("%v\nwant one line with\n%s", err, c.want)
			}
		})
	}
}
