// Package archtest holds the import rules of docs/DESIGN.md as tests: which
// part of the tree may know which other part, and which package may use which
// technology. It has no code of its own.
package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "loadstone/"

// A stratum may import only the prefixes listed for it. Anything not listed is
// forbidden. $ stands for the second element of the importer's path, so that
// system/$ is "the same system only".
var allowed = map[string][]string{
	"block":    {"block"},
	"contract": {},
	"lab":      {"block", "lab"},
	"system":   {"block", "contract", "system/$"},
	"internal": {"block", "contract", "lab", "system", "internal"},
	"cmd":      {"internal/cli"},
	"bench":    {"bench", "block", "lab", "system"},
}

// One technology, one place: a client library may be imported only below the
// prefixes listed for it, tests included. A library that is not listed may be
// imported from nowhere, so that adding one is a decision made here.
var technology = map[string][]string{
	"github.com/HdrHistogram/hdrhistogram-go":  {"lab", "internal/screen"},
	"github.com/aclements/go-moremath":         {"lab/stats"},
	"github.com/andybalholm/brotli":            {"block/compress", "lab/load"},
	"github.com/alitto/pond":                   {"block/pool"},
	"github.com/apache/cassandra-gocql-driver": {"block/cql", "lab/driver/process", "lab/probe/cassandra", "system"},
	"github.com/cespare/xxhash":                {"system", "block"},
	"github.com/cockroachdb/pebble":            {"block/lsm", "system"},
	"github.com/compose-spec/compose-go":       {"lab/topology", "lab/driver"},
	"github.com/coreos/go-oidc":                {"system/chat/oidc"},
	"github.com/failsafe-go/failsafe-go":       {"block/pool"},
	"github.com/go-json-experiment/json":       {"system"},
	"github.com/go-sql-driver/mysql":           {"block/servertest", "system/chat/registry"},
	"github.com/getkin/kin-openapi":            {"lab/importer"},
	"github.com/goccy/go-json":                 {"system/feed"},
	"github.com/goccy/go-yaml":                 {"lab/experiment", "lab/topology", "lab/driver/process/recipe", "internal"},
	"github.com/gorilla/websocket":             {"lab/load", "system/chat/reconcile", "system/chat/serve"},
	"github.com/invopop/jsonschema":            {"lab/experiment", "lab/load/summary"},
	"github.com/jackc/pgx":                     {"block/postgres", "block/servertest", "internal/cli", "system", "lab/driver/process/recipe"},
	"github.com/klauspost/compress":            {"block/compress", "block/dictionary", "block/websocket", "lab/load", "system/feed/snapshot", "system/menu"},
	"github.com/mattn/go-isatty":               {"internal/cli"},
	"github.com/maypok86/otter":                {"block/cache", "block/lookaside", "block/versioned", "system/menu/recordfile"},
	"github.com/minio/minio-go":                {"block/objects"},
	"github.com/nats-io/nats-server":           {"block/queue/nats"},
	"github.com/nats-io/nats.go":               {"block/queue/nats"},
	"github.com/prometheus/client_golang":      {"bench/fanout", "block", "system", "lab/load/export/remotewrite"},
	"github.com/prometheus/client_model":       {"block", "system", "lab/probe"},
	"github.com/prometheus/common":             {"lab/probe"},
	"github.com/redis/rueidis":                 {"block", "system"},
	"github.com/santhosh-tekuri/jsonschema":    {"block/openapitest", "lab/experiment", "lab/load/summary", "system/chat"},
	"github.com/spf13/cobra":                   {"internal/cli"},
	"github.com/spf13/pflag":                   {"internal/cli"},
	"github.com/tidwall/gjson":                 {"lab/load"},
	"github.com/twmb/franz-go":                 {"block/queue/kafka", "lab/driver/process", "lab/probe/kafka", "system/chat/topics"},
	"github.com/valyala/fasthttp":              {"block/backoffice", "block/browsertest", "block/compress", "block/dictionary/dcz", "block/httpserver", "block/route", "block/service", "system", "lab/load", "lab/selftest/plant", "bench/bare", "bench/peers"},
	"github.com/vbauerster/mpb":                {"internal/cli"},
	"github.com/vishvananda/netlink":           {"lab/driver/process/network"},
	"github.com/vishvananda/netns":             {"lab/driver/process/network"},
	"go.uber.org/goleak":                       {"block", "lab", "system", "internal"},
	"golang.org/x/crypto":                      {"block/account", "block/backoffice/backofficetest"},
	"golang.org/x/crypto/x509roots":            {"cmd/loadstone"},
	"golang.org/x/net":                         {"block/socket", "lab/driver/process/network", "lab/host/packets"},
	"golang.org/x/oauth2":                      {"system/chat/oidc"},
	"golang.org/x/sync":                        {"bench/bare", "bench/fanout", "block", "lab", "system", "internal"},
	"golang.org/x/sys":                         {"bench/fanout", "block", "lab", "system", "internal"},
	"golang.org/x/text":                        {"system/chat/analysis", "system/chat/moderation", "system/menu/search"},
	"gonum.org/v1/gonum":                       {"lab"},
	"github.com/bufbuild/protocompile":         {"lab/load/rpc"},
	"google.golang.org/grpc":                   {"lab/load/rpc", "lab/load/engine"},
	"google.golang.org/protobuf":               {"lab/load/export/remotewrite", "lab/load/rpc"},
	"k8s.io/api":                               {"lab/driver/kubernetes"},
	"k8s.io/apimachinery":                      {"lab/driver/kubernetes"},
	"k8s.io/client-go":                         {"lab/driver/kubernetes"},
	"modernc.org/sqlite":                       {"block/sqlite"},
	"sigs.k8s.io/yaml":                         {"lab/driver/kubernetes"},
}

// Within a system, adapters do not know each other: they meet at the system's
// root, or in the packages that wire them: stores knows every store by its name, and
// serve makes a server of all.
var wiring = []string{"serve", "stores"}

type pkg struct {
	ImportPath   string   `json:"ImportPath"`
	Imports      []string `json:"Imports"`
	TestImports  []string `json:"TestImports"`
	XTestImports []string `json:"XTestImports"`
}

func (p pkg) all() []string { return slices.Concat(p.Imports, p.TestImports, p.XTestImports) }

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		src := strings.TrimPrefix(p.ImportPath, module)
		for _, imp := range p.Imports {
			if dst, ok := strings.CutPrefix(imp, module); ok && (!permitted(src, dst) || siblings(src, dst)) {
				t.Errorf("%s imports %s: not allowed", src, dst)
			}
		}
		for _, imp := range p.all() {
			if !strings.Contains(strings.Split(imp, "/")[0], ".") {
				continue // standard library, or our own
			}
			if !usable(src, imp) {
				t.Errorf("%s imports %s: not its place; see technology in internal/archtest", src, imp)
			}
		}
	}
}

// The rules themselves must be able to fail.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		src, dst string
		want     bool
	}{
		{"system/results/httpapi", "system/results", true},
		{"system/results/httpapi", "system/menu", false},
		{"system/results", "lab/load", false},
		{"lab/load", "system/results", false},
		{"lab/load", "internal/cli", false},
		{"block/cache", "lab/load", false},
		{"block/cache", "block/service", true},
		{"internal/cli", "lab/load", true},
		{"cmd/loadstone", "lab/load", false},
		{"elsewhere", "block/cache", false},
		{"system/results/httpapi", "system/results/snapshot", false},
		{"system/results/serve", "system/results/snapshot", true},
		{"system/results/stores", "system/results/snapshot", true},
	} {
		if got := permitted(c.src, c.dst) && !siblings(c.src, c.dst); got != c.want {
			t.Errorf("%s imports %s: permitted %v, want %v", c.src, c.dst, got, c.want)
		}
	}
	for _, c := range []struct {
		src, imp string
		want     bool
	}{
		{"block/sqlite", "modernc.org/sqlite", true},
		{"lab/archive", "modernc.org/sqlite", false},
		{"lab/topology", "github.com/compose-spec/compose-go/v2/loader", true},
		{"internal/cli", "github.com/compose-spec/compose-go/v2/loader", false},
		{"internal/cli", "github.com/nobody/nothing", false},
	} {
		if got := usable(c.src, c.imp); got != c.want {
			t.Errorf("%s imports %s: usable %v, want %v", c.src, c.imp, got, c.want)
		}
	}
}

func permitted(src, dst string) bool {
	parts := strings.Split(src, "/")
	for _, rule := range allowed[parts[0]] {
		if base, ok := strings.CutSuffix(rule, "$"); ok {
			if len(parts) < 2 {
				continue
			}
			rule = base + parts[1]
		}
		if below(dst, rule) {
			return true
		}
	}
	return false
}

// siblings reports whether src and dst are two adapters of one system.
func siblings(src, dst string) bool {
	s, d := strings.Split(src, "/"), strings.Split(dst, "/")
	if len(s) < 3 || len(d) < 3 || s[0] != "system" || d[0] != "system" || s[1] != d[1] {
		return false
	}
	return s[2] != d[2] && !slices.Contains(wiring, s[2])
}

func usable(src, imp string) bool {
	for lib, places := range technology {
		if !below(imp, lib) {
			continue
		}
		for _, place := range places {
			if below(src, place) {
				return true
			}
		}
	}
	return false
}

// below reports whether path is prefix or lies under it.
func below(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list's output: %v", err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		t.Fatal("no packages listed; the rules were not checked")
	}
	return all
}
