package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/system/menu"
	"loadstone/system/menu/httpapi"
)

func TestReading(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	const revalidate = "public, no-cache"
	f.ask(t, "GET /menu/7", "").want(t, 200, seven, "ETag", tagOf(seven), "X-Menu-Version", "2", "Cache-Control", revalidate)
	f.ask(t, "HEAD /menu/8", "").want(t, 200, "", "ETag", tagOf(eight), "X-Menu-Version", "1", "Content-Length", strconv.Itoa(len(eight)))
	for _, match := range []string{tagOf(seven), "W/" + tagOf(seven), `"a", ` + tagOf(seven), "*"} {
		got := f.ask(t, "GET /menu/7", "", "If-None-Match: "+match)
		got.want(t, 304, "", "ETag", tagOf(seven), "X-Menu-Version", "2", "Cache-Control", revalidate)
	}
	f.ask(t, "GET /menu/7", "", "If-None-Match: "+tagOf(eight)).want(t, 200, seven)
	f.ask(t, "GET /menu/6", "").want(t, 404, `"not_found"`, "X-Menu-Version", "", "Cache-Control", "no-store")
	f.ask(t, "GET /menu/9", "").want(t, 404, `"not_found"`, "X-Menu-Version", "2", "Cache-Control", "no-store")
	f.ask(t, "GET /menu/9/metadata", "").want(t, 404, `"not_found"`, "X-Menu-Version", "2")
	described := fmt.Sprintf(`{"id":7,"version":2,"etag":%q,"bytes":%d,"dishes":1,"link":null,"currency":"USD"}`, tagOf(seven), len(seven))
	f.ask(t, "GET /menu/7/metadata", "").want(t, 200, described, "ETag", tagOf(described), "X-Menu-Version", "2")
	f.ask(t, "GET /menu/7/metadata", "", "If-None-Match: "+tagOf(described)).want(t, 304, "")
	f.ask(t, "GET /menu/8/metadata", "").want(t, 200, `"link":"https://eight.example/menu","currency":"EUR"}`)
}

func TestManyMenusInOneAnswer(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	both := `{"menus":[` + eight + `,` + seven + `],"missing":[6,9]}`
	f.ask(t, "GET /menu?ids=8,6,7,9,8", "").want(t, 200, both, "ETag", tagOf(both))
	f.ask(t, "GET /menu?ids=8%2C6,7,9", "", "If-None-Match: "+tagOf(both)).want(t, 304, "")
	f.ask(t, "GET /menu?ids=6", "").want(t, 200, `{"menus":[],"missing":[6]}`)
	numbers := make([]string, httpapi.MaxIDs)
	for i := range numbers {
		numbers[i] = strconv.Itoa(i + 1)
	}
	ids := strings.Join(numbers, ",")
	f.ask(t, "GET /menu?ids="+ids, "").want(t, 200, `,"missing":[1,2,3,4,5,6,9,10,`)
	for _, wrong := range []string{"", "?", "?ids=", "?ids=1&ids=2", "?ids=" + ids + ",101", "?ids=" + strings.Repeat(",", 1000)} {
		f.ask(t, "GET /menu"+wrong, "").want(t, 400, `"bad_ids"`)
	}
	for _, wrong := range []string{"0", "7,", ",7", "7,-1", "7,007", "7, 8", "7;8", "%00", "9223372036854775808"} {
		f.ask(t, "GET /menu?ids="+strings.ReplaceAll(wrong, " ", "%20"), "").want(t, 400, `"malformed_id"`)
	}
	f.db.fail(menu.ErrUnavailable)
	f.ask(t, "GET /menu?ids=7,8", "").want(t, 503, `"unavailable"`, "Retry-After", "1")
}

// A scheme in capitals is the same one, as the interface's document says.
func TestLinkInCapitals(t *testing.T) {
	t.Parallel()
	start(t, nil).write(t, "PUT /menu/7", `{"link":"HTTP://EXAMPLE.org/"}`).want(t, 200, `"link":"HTTP://EXAMPLE.org/"`)
}

func TestWriting(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	noID := strings.Replace(seven, `"id":7,`, "", 1)
	made := strings.Replace(seven, `"id":7`, `"id":10`, 1)
	f.write(t, "POST /menu", noID).want(t, 201, made, "Location", "/menu/10", "ETag", tagOf(made), "X-Menu-Version", "1")
	f.write(t, "POST /menu", made).want(t, 409, `"exists"`)
	f.write(t, "POST /menu", strings.Replace(seven, `"id":7`, `"id":20`, 1), "If-None-Match: *").want(t, 201, `"id":20`, "Location", "/menu/20")
	f.ask(t, "GET /menu/20", "").want(t, 200, `"id":20`)

	other := strings.Replace(seven, "Shiro", "Kitfo", 1)
	f.write(t, "PUT /menu/7", other).want(t, 200, other, "ETag", tagOf(other), "X-Menu-Version", "3", "Location", "")
	f.write(t, "PUT /menu/7", noID).want(t, 200, seven, "X-Menu-Version", "4")
	nine := strings.Replace(seven, `"id":7`, `"id":9`, 1)
	f.write(t, "PUT /menu/9", noID).want(t, 201, nine, "Location", "/menu/9", "X-Menu-Version", "3") // goes on from the deletion
	// As programs write that do not trust numbers.
	f.write(t, "PUT /menu/7", strings.Replace(noID, "12.50", `"12.5"`, 1)).want(t, 200, seven, "X-Menu-Version", "5")

	pictured := strings.Replace(seven, `]}],"link"`, `],"photo":"https://a.example/1.jpg"}],"link"`, 1)
	f.write(t, "PUT /menu/7", pictured).want(t, 200, pictured, "ETag", tagOf(pictured), "X-Menu-Version", "6")
	f.write(t, "PUT /menu/7", strings.Replace(seven, `]}]`, `],"photo":null}]`, 1)).want(t, 200, seven, "ETag", tagOf(seven), "X-Menu-Version", "7")

	f.ask(t, "DELETE /menu/7", "", bearer).want(t, 204, "", "X-Menu-Version", "8")
	f.ask(t, "DELETE /menu/7", "", bearer).want(t, 404, `"not_found"`)
	f.ask(t, "GET /menu/7", "").want(t, 404, `"not_found"`, "X-Menu-Version", "8")
	for outcome, want := range map[string]float64{"done": 9, "refused": 2, "failed": 0} {
		if got := f.count(t, "menu_writes_total", outcome); got != want {
			t.Errorf("%v writes %s, want %v", got, outcome, want)
		}
	}
}

// No update is lost: who wants to change what is no longer there is told what is.
func TestConditions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, target, condition string
		status                    int
		code                      string
	}{
		{"PUT", "7", "If-Match: " + tagOf(seven), 200, ""},
		{"PUT", "7", "If-Match: W/" + tagOf(seven), 200, ""}, // made weak by a proxy that compresses
		{"PUT", "7", "If-Match: *", 200, ""},
		{"PUT", "6", "If-None-Match: *", 201, ""},
		{"PUT", "9", "If-None-Match: *", 201, ""},
		{"DELETE", "7", "If-Match: " + tagOf(seven), 204, ""},
		{"PUT", "7", "If-Match: " + tagOf(eight), 412, "changed"},
		{"PUT", "7", `If-Match: "x"`, 412, "changed"},
		{"PUT", "7", `If-Match: "` + strings.ToUpper(tagOf(seven)[1:]), 412, "changed"},
		{"PUT", "7", "If-None-Match: *", 412, "changed"},
		{"PUT", "6", "If-Match: *", 412, "changed"},
		{"PUT", "9", "If-Match: " + tagOf(seven), 412, "changed"},
		{"DELETE", "7", `If-Match: "x"`, 412, "changed"},
		{"PUT", "7", "If-Match: " + tagOf(seven) + ", " + tagOf(eight), 400, "bad_condition"},
		{"PUT", "7", "If-Match: " + tagOf(seven) + "\r\nIf-Match: *", 400, "bad_condition"},
		{"PUT", "7", "If-Match: *\r\nIf-None-Match: *", 400, "bad_condition"},
		{"PUT", "7", "If-Match: x", 400, "bad_condition"},
		{"PUT", "7", "If-None-Match: " + tagOf(seven), 400, "bad_condition"},
		{"DELETE", "7", "If-Match:", 400, "bad_condition"},
	} {
		f := start(t, nil)
		before := f.db.state()
		body := ""
		if c.method == "PUT" {
			body = `{"dishes":[` + shiro + `]}`
		}
		got := f.write(t, c.method+" /menu/"+c.target, body, c.condition)
		got.want(t, c.status, c.code)
		if unchanged := f.db.state() == before; unchanged != (c.code != "") {
			t.Errorf("%s %s %s: unchanged is %v", c.method, c.target, c.condition, unchanged)
		}
		if c.status == 412 && c.target == "7" {
			got.want(t, 412, "", "ETag", tagOf(seven), "X-Menu-Version", "2")
		} else if c.status == 412 {
			got.want(t, 412, "", "ETag", "")
		}
	}
	f := start(t, nil)
	for _, condition := range []string{"If-Match: *", `If-Match: "x"`, "If-Match: " + tagOf(seven)} {
		f.write(t, "POST /menu", `{"dishes":[`+shiro+`]}`, condition).want(t, 400, `"bad_condition"`)
	}
}

// Ten people add a dish each, again and again until it is in: none is lost.
func TestNoUpdateIsLost(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	var all sync.WaitGroup
	for person := range 10 {
		all.Go(func() {
			for {
				present := f.ask(t, "GET /menu/7", "")
				m, err := menu.ParseJSON([]byte(present.Body))
				if err != nil {
					t.Error(err)
					return
				}
				dish := m.Dishes[0]
				dish.Name = fmt.Sprint("dish of ", person)
				m.Dishes = append(m.Dishes, dish)
				got := f.write(t, "PUT /menu/7", string(m.AppendJSON(nil)), "If-Match: "+present.Header.Get("ETag"))
				if got.Status == 200 {
					return
				}
				if got.want(t, 412, "changed"); t.Failed() {
					return
				}
			}
		})
	}
	all.Wait()
	for person := range 10 {
		f.ask(t, "GET /menu/7", "").want(t, 200, fmt.Sprint("dish of ", person), "X-Menu-Version", "12")
	}
}

func TestWhoMayWrite(t *testing.T) {
	t.Parallel()
	writes := []string{"POST /menu", "PUT /menu/7", "DELETE /menu/7", "PUT /menu/x", "DELETE /menu/0"}
	body := `{"dishes":[` + shiro + `]}`
	f := start(t, nil)
	locked := start(t, func(c *httpapi.Config) { c.Token = "" })
	readOnly := start(t, func(c *httpapi.Config) { c.Store = published{newMemory(t)} })
	before := f.db.state()
	for _, write := range writes {
		for _, header := range []string{
			"X: y", "Authorization:", "Authorization: Bearer", "Authorization: Bearer ", "Authorization: " + token, "Authorization: Basic " + token,
			"Authorization: Bearer x" + token, bearer + "x", "Authorization: Bearer " + strings.ToUpper(token), "Authorization: Bearer  " + token,
			"Authorization: Bearer x\r\n" + bearer,
		} {
			f.ask(t, write, body, asJSON, header).want(t, 401, `"unauthorized"`, "WWW-Authenticate", "Bearer")
		}
		for _, header := range []string{"X: y", bearer, "Authorization: Bearer", "Authorization: Bearer "} {
			locked.ask(t, write, body, asJSON, header).want(t, 403, "start the server with a token")
			readOnly.ask(t, write, body, asJSON, header).want(t, 405, "publish again", "Allow", "GET, HEAD")
		}
	}
	if f.db.state() != before || locked.db.state() != before {
		t.Error("something was written")
	}
	// The scheme's name is not case-sensitive.
	f.ask(t, "DELETE /menu/7", "", "Authorization: bearer "+token).want(t, 204, "")
	readOnly.ask(t, "GET /menu/7", "").want(t, 200, seven)
}

// told records what caches are told.
type told struct {
	mu              sync.Mutex
	all             []string
	changing, later error
}

func (c *told) answer(with *error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *with
}

func (c *told) hooks(cfg *httpapi.Config) {
	add := func(format string, args ...any) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, fmt.Sprintf(format, args...))
	}
	cfg.Changing = func(ctx context.Context, id int64) error {
		if _, ok := ctx.Deadline(); !ok {
			add("without a deadline")
		}
		add("changing %d", id)
		return c.answer(&c.changing)
	}
	cfg.Changed = func(ctx context.Context, id int64, page menu.Page, deleted bool) error {
		if _, ok := ctx.Deadline(); !ok {
			add("without a deadline")
		}
		add("changed %d version %d bytes %d deleted %v", id, page.Version, len(page.Body), deleted)
		return c.answer(&c.later)
	}
	cfg.Unchanged = func(ctx context.Context, id int64) error {
		if _, ok := ctx.Deadline(); !ok {
			add("without a deadline")
		}
		add("unchanged %d", id)
		return c.answer(&c.later)
	}
}

func TestCachesAreTold(t *testing.T) {
	t.Parallel()
	var caches told
	f := start(t, caches.hooks)
	body := `{"dishes":[` + shiro + `]}`
	f.write(t, "PUT /menu/7", body).want(t, 200, "")
	f.ask(t, "DELETE /menu/7", "", bearer).want(t, 204, "")
	f.write(t, "POST /menu", body).want(t, 201, "")
	f.write(t, "PUT /menu/8", body, `If-Match: "0000000000000001"`).want(t, 412, "") // told before, and that it did not take place
	f.write(t, "PUT /menu/8", body, `If-Match: "x"`).want(t, 412, "")                // tells nobody, as does what is no menu
	f.write(t, "PUT /menu/8", "{}").want(t, 422, "")
	want := fmt.Sprintf("changing 7; changed 7 version 3 bytes %d deleted false; changing 7; changed 7 version 4 bytes 0 deleted true; "+
		"changing 0; changed 10 version 1 bytes %d deleted false; changing 8; unchanged 8", len(seven), len(seven)+1)
	caches.mu.Lock()
	defer caches.mu.Unlock()
	if got := strings.Join(caches.all, "; "); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// A cache that cannot be told would go on serving the old menu: nothing is written.
func TestCachesThatCannotBeTold(t *testing.T) {
	t.Parallel()
	caches := told{changing: errors.New("redis at 10.0.0.1 is away")}
	f := start(t, caches.hooks)
	before := f.db.state()
	body := `{"dishes":[` + shiro + `]}`
	for _, write := range []string{"POST /menu", "PUT /menu/7", "PUT /menu/6", "DELETE /menu/7"} {
		got := f.write(t, write, body)
		got.want(t, 503, `"caches_unavailable"`, "Retry-After", "1")
		if strings.Contains(got.Body, "redis") {
			t.Errorf("the client was told %s", got.Body)
		}
	}
	f.ask(t, "GET /menu/7", "").want(t, 200, seven) // reads go on
	if f.db.state() != before {
		t.Error("something was written")
	}
	if got := f.count(t, "menu_untold_total", "before"); got != 4 || !strings.Contains(f.logs.String(), "redis") {
		t.Errorf("got %v counted and the log %s, want 4 and the reason", got, f.logs)
	}
	caches.mu.Lock()
	caches.changing, caches.later = nil, errors.New("redis went away")
	caches.mu.Unlock()
	f.write(t, "PUT /menu/7", body).want(t, 200, "", "X-Menu-Version", "3") // it is written, and stands
	if got := f.count(t, "menu_untold_total", "after"); got != 1 {
		t.Errorf("got %v counted, want 1", got)
	}
}

func TestWhatTheStoreSaysBecomesAnAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		code   string
		failed float64
	}{
		{fmt.Errorf("/secret: %w", menu.ErrUnavailable), 503, `"unavailable"`, 4},
		{fmt.Errorf("/secret: %w", menu.ErrOverloaded), 503, `"overloaded"`, 0},
		{fmt.Errorf("/secret: %w", menu.ErrMissing), 503, `"unavailable"`, 4},
		{fmt.Errorf("/secret: %w", context.DeadlineExceeded), 503, `"unavailable"`, 4},
		{fmt.Errorf("/secret: %w", menu.ErrCorrupt), 500, `"internal"`, 4},
		{errors.New("no space left at /secret"), 500, `"internal"`, 4},
	} {
		f := start(t, nil)
		f.db.fail(c.err)
		for _, request := range []string{"GET /menu/7", "GET /menu?ids=7,8", "PUT /menu/7", "DELETE /menu/7"} {
			body := ""
			if strings.HasPrefix(request, "PUT") {
				body = seven
			}
			got := f.write(t, request, body)
			got.want(t, c.status, c.code)
			if strings.Contains(got.Body, "secret") {
				t.Errorf("the client was told %s", got.Body)
			}
		}
		if got := f.count(t, "menu_store_failures_total"); got != c.failed {
			t.Errorf("%v: got %v counted, want %v", c.err, got, c.failed)
		}
		if got := f.count(t, "menu_store_lookups_total"); got < 3 {
			t.Errorf("%v: got %v look-ups counted, want 3 and those of what a write did not find", c.err, got)
		}
		if logged := strings.Count(f.logs.String(), "the store of menus failed"); logged != min(1, int(c.failed)) {
			t.Errorf("%v: got %d lines of log:\n%s", c.err, logged, f.logs)
		}
	}
	f := start(t, nil)
	f.db.mu.Lock()
	f.db.menus[7] = row{page: menu.Page{Body: []byte("{"), Version: 1}}
	f.db.mu.Unlock()
	f.ask(t, "GET /menu/7/metadata", "").want(t, 500, `"internal"`)
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	good := httpapi.Config{
		Store: newMemory(t), Ready: func() bool { return true },
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, token := range []string{"short", "with a space in it, and long enough", "with\x00a zero byte, long", "ጥሩ-ሚስጥር-ቃል-ነው-ይህ"} {
		bad := good
		bad.Token = token
		if _, err := httpapi.New(bad); err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("token %q: got %v, want an error without it", token, err)
		}
	}
	if _, err := httpapi.New(httpapi.Config{}); err == nil {
		t.Error("an empty configuration: got no error")
	}
}
