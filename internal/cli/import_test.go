package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"loadstone/block/browsertest"
)

// TestImportedHARRuns records what a browser does on the page for students, makes a load of
// it, and has it answered as the browser was.
func TestImportedHARRuns(t *testing.T) {
	dir := t.TempDir()
	_, address := startServe(t)
	url := "http://" + address
	tab := browsertest.Start(t).Open(t, browsertest.Screen{Width: 390, Height: 844})
	stop := tab.Record()
	tab.Visit(url + "/")
	// The page's own policy lets no script ask for anything else: a person follows links.
	tab.Visit(url + "/student/7")
	tab.Call("Network.setExtraHTTPHeaders", map[string]any{"headers": map[string]string{"Authorization": "Bearer very-secret"}}, nil)
	tab.Visit(url + "/student/8")
	recorded := stop()
	if err := os.WriteFile(filepath.Join(dir, "page.har"), recorded, 0o600); err != nil {
		t.Fatal(err)
	}
	made := loadstone(t, dir, "import", "har", "page.har", "--output", "page.yaml")
	if made.code != exitOK || !strings.Contains(made.stderr, "the header Authorization is left out") {
		t.Fatalf("exit status %d: %s", made.code, made.stderr)
	}
	file, err := os.ReadFile(filepath.Join(dir, "page.yaml"))
	if err != nil || strings.Contains(string(file), "very-secret") {
		t.Fatalf("%v: the load has the credentials, or is not there:\n%s", err, file)
	}
	got := loadstone(t, dir, "load", "page.yaml", "--json", "-", "-q")
	if got.code != exitOK {
		t.Fatalf("exit status %d: %s\n%s", got.code, got.stderr, file)
	}
	r := readResult(t, got.stdout)
	seen := map[string]uint64{}
	for _, s := range r.Steps {
		seen[s.Name] = s.Requests
	}
	// Whether it has asked for an icon by then is the browser's business.
	if seen["home"] == 0 || seen["student-7"] == 0 || seen["student-8"] == 0 {
		t.Errorf("steps %v; want the page and two students", seen)
	}
}

// TestImportedOpenAPIRuns has the description of a service that runs be asked for its
// operations.
func TestImportedOpenAPIRuns(t *testing.T) {
	dir := t.TempDir()
	_, address := startServe(t)
	made := loadstone(t, dir, "import", "openapi", repository(t, "system/results/httpapi/openapi.json"), "--target", "http://"+address, "-o", "api.yaml")
	if made.code != exitOK {
		t.Fatalf("exit status %d: %s", made.code, made.stderr)
	}
	got := loadstone(t, dir, "load", "api.yaml", "--json", "-", "-q")
	r := readResult(t, got.stdout)
	if got.code != exitOK || r.Requests < 50 || len(r.Steps) < 4 {
		t.Errorf("exit status %d: %s, %+v; want about 100 requests of four steps and none failed", got.code, got.stderr, r)
	}
	for _, what := range []string{"menu", "feed"} {
		made := loadstone(t, dir, "import", "openapi", repository(t, "system/"+what+"/httpapi/openapi.json"), "--writing", "--target", "http://"+address)
		if made.code != exitOK || !strings.Contains(made.stdout, "weighted: true") {
			t.Errorf("%s: exit status %d: %s", what, made.code, made.stderr)
		}
	}
}

// repository is the path of a file of the project.
func repository(t *testing.T, path string) string {
	t.Helper()
	whole, err := filepath.Abs(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// TestImportedPostmanRuns has each request of a collection arrive as it was meant.
func TestImportedPostmanRuns(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	seen := map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		what := r.Method + " " + r.URL.Path
		switch r.URL.Path {
		case "/v1/users/nobody":
			w.WriteHeader(http.StatusNotFound)
		case "/v1/register":
			what += " " + r.PostFormValue("name")
		case "/v1/upload":
			what += " " + r.PostFormValue("title") + r.PostFormValue("meta")
		case "/v1/graphql":
			var q struct {
				Query     string `json:"query"`
				Variables struct {
					N int `json:"n"`
				} `json:"variables"`
			}
			what += fmt.Sprint(" ", json.NewDecoder(r.Body).Decode(&q), q.Query, q.Variables.N)
		case "/v1/search":
			what += " " + r.FormValue("q")
		}
		seen[what] = true
	}))
	t.Cleanup(s.Close)
	collection := repository(t, "lab/importer/testdata/shop.postman_collection.json")
	made := loadstone(t, dir, "import", "postman", collection, "--var", "baseUrl="+s.URL+"/v1", "-o", "shop.yaml")
	if made.code != exitOK || !strings.Contains(made.stderr, "bearer authentication is left out") {
		t.Fatalf("exit status %d: %s", made.code, made.stderr)
	}
	got := loadstone(t, dir, "load", "shop.yaml", "-q")
	if got.code != exitOK || !strings.Contains(got.stdout, "✓ status is 404") {
		t.Fatalf("exit status %d: %s%s", got.code, got.stdout, got.stderr)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{
		"POST /v1/login", "POST /v1/register Ada L", "GET /v1/users/nobody", "GET /v1/categories/30/items", "GET /v1/search red shoes",
		"POST /v1/graphql <nil>query($n: Int) {items(first: $n) {name}}3", `POST /v1/upload Shoes{"a": 1}`, "DELETE /v1/files/1", "GET /v1/short",
	} {
		if !seen[want] {
			t.Errorf("%s did not come, of %v", want, seen)
		}
	}
}

func TestImportRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"har", "none.har"}, "none.har"},
		{[]string{"har", repository(t, "go.mod")}, "is no HAR"},
		{[]string{"postman", repository(t, "system/results/httpapi/openapi.json")}, "is no Postman collection"},
		{[]string{"postman", repository(t, "lab/importer/testdata/shop.postman_collection.json"), "--var", "x"}, "--var NAME=VALUE"},
		{[]string{"openapi", repository(t, "go.mod")}, "cannot be read as OpenAPI 3"},
		{[]string{"openapi", repository(t, "lab/importer/testdata/shop.openapi.yaml"), "-o", "no/such/x"}, "no/such"},
		{[]string{"openapi"}, "takes 1 argument, and none is given"},
	} {
		if got := loadstone(t, dir, append([]string{"import"}, c.args...)...); got.code != exitUsage || !strings.Contains(got.stderr, c.want) {
			t.Errorf("loadstone import %v: exit status %d, %s; want %d and %s", c.args, got.code, got.stderr, exitUsage, c.want)
		}
	}
}
