package nginx_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/block/smuggling"
)

// The whole form is attacked at once. Nothing that was refused is stored then, and what the
// upstreams got can be read in one way.
func TestAttacks(t *testing.T) {
	t.Parallel()
	s := start(t)
	all := make([]string, menus)
	for i := range all {
		all[i] = strconv.Itoa(i + 1)
	}
	every := "GET /menu?ids=" + strings.Join(all, ",")
	before := ask(t, s.server, every, "")
	t.Run("group", func(t *testing.T) {
		for name, attack := range map[string]func(*testing.T, *system){
			"smuggling":           smuggled,
			"refused requests":    refused,
			"paths":               paths,
			"headers":             headers,
			"foreign bytes":       foreign,
			"unknown ids":         flood,
			"guessing":            guessing,
			"slow clients":        slow,
			"requests of one":     held,
			"limits that are off": unlimited,
			"nobody left":         down,
			"requests mixed well": mixed,
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); attack(t, s) })
		}
	})
	if got := ask(t, s.server, every, ""); got.status != 200 || got.body != before.body {
		t.Errorf("the menus are\n%.2000s\nwant\n%.2000s", got.body, before.body)
	}
	if n := s.done(t); n != "0" {
		t.Errorf("%s writes were done", n)
	}
	if got := ask(t, s.lb, "PUT /api/menu/7", menu7("12.50"), bearer, asJSON); got.status != 200 || s.done(t) == "0" {
		t.Errorf("a write that is allowed: got %+v, and %s were done", got, s.done(t))
	}
	s.nginx.Stop()
	s.proxiesHear.Check(t, len(payloads("/api/menu/7")), 145*3)
	s.menusHear.Check(t, len(payloads("/menu/7")), 145*3)
}

func payloads(path string) []string {
	return smuggling.Payloads("PUT "+path, "GET "+path, "POST /admin/sign-in")
}

// menu7 is a menu with a price, as JSON has it.
func menu7(price string) string {
	return `{"id":7,"dishes":[{"dishType":"dinner","subType":"main","dish":"Shiro","price":` + price + `}]}`
}

// smuggled sends requests that two servers may read differently, to both NGINX, and through all
// servers, where meanwhile everybody gets the answer that is meant for them.
func smuggled(t *testing.T, s *system) {
	var sending sync.WaitGroup
	sending.Go(func() { smuggling.Send(t, s.lbHeard, payloads("/api/menu/7")) })
	sending.Go(func() { smuggling.Send(t, s.menulbHeard, payloads("/menu/7")) })
	sending.Go(func() { smuggling.Send(t, s.lb, payloads("/api/menu/7")) })
	sent := make(chan struct{})
	go func() { defer close(sent); sending.Wait() }()
	for {
		mixed(t, s)
		select {
		case <-sent:
			return
		default:
		}
	}
}

// mixed asks for many things over few connections: each answer is that of its request, whatever
// the host and the headers.
func mixed(t *testing.T, s *system) {
	hosts := []string{s.lb, "menus.example", "evil.example", "a.b:1"}
	extra := []string{"", "Accept-Encoding: gzip, dcz\r\n", "If-None-Match: *\r\n", "X-Forwarded-Host: evil.example\r\nX-Original-URL: /api/menu/1\r\n", "Range: bytes=0-5\r\n", "X-HTTP-Method-Override: DELETE\r\n"}
	var clients sync.WaitGroup
	for client := range 6 {
		clients.Go(func() {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.lb)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			r := bufio.NewReader(conn)
			for i := range 40 {
				_ = conn.SetDeadline(time.Now().Add(deadline))
				id := 1 + (i*7+client*13)%(menus+10)
				method, want := []string{"GET", "HEAD", "GET"}[(i+client)%3], fmt.Sprintf(`{"id":%d,`, id)
				_, _ = fmt.Fprintf(conn, "%s /api/menu/%d HTTP/1.1\r\nHost: %s\r\n%s\r\n", method, id, hosts[(i+client)%len(hosts)], extra[(i/2+client)%len(extra)])
				resp, err := http.ReadResponse(r, &http.Request{Method: method})
				if err != nil {
					t.Errorf("menu %d: %v", id, err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				switch {
				case err != nil:
					t.Errorf("menu %d: %v", id, err)
				case resp.StatusCode == http.StatusServiceUnavailable: // the machine is slow
				case id > menus && resp.StatusCode != http.StatusNotFound, id <= menus && resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotModified:
					t.Errorf("menu %d: got status %d: %s", id, resp.StatusCode, body)
				case method == "HEAD" || resp.StatusCode == http.StatusNotModified:
					if len(body) > 0 {
						t.Errorf("menu %d: got %s, want no body", id, body)
					}
				case id <= menus && !strings.HasPrefix(string(body), want), strings.Contains(string(body), "evil"):
					t.Errorf("menu %d: got %s", id, body)
				}
			}
		})
	}
	clients.Wait()
}

// refused are requests that no server may take: each is answered 4xx. That none of them has
// changed anything is checked in the end.
func refused(t *testing.T, s *system) {
	want := func(request, body string, headers ...string) {
		t.Helper()
		got := ask(t, s.lb, request, body, headers...)
		cut := got.status == 0 && len(body) > 1<<16 // while it was still being sent
		if !cut && (got.status < 400 || got.status >= 500) {
			t.Errorf("%s %.60q: got status %d, %.200s", request, body, got.status, got.body)
		}
	}
	for _, id := range []string{"0", "-1", "007", "12abc", "9223372036854775808", "18446744073709551623", "%00", "7%00", "7%0d%0aX:1", "\xff", ".", "7;8", strings.Repeat("9", 3000)} {
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "BREW"} {
			body := ""
			if method == "PUT" {
				body = menu7("1")
			}
			want(method+" /api/menu/"+id, body, bearer, asJSON)
		}
		want("GET /restaurants/"+id, "")
	}
	for _, id := range []string{"2147483648", "4294967303", "999999999999999999"} { // 4294967303 is 7 in 32 bits
		want("GET /api/menu/"+id, "")
		want("GET /restaurants/"+id, "")
	}
	with := func(old, replacement string) string { return strings.Replace(menu7("12.50"), old, replacement, 1) }
	link := func(address string) string { return `{"id":7,"dishes":[],"link":"` + address + `"}` }
	for _, body := range []string{
		strings.Repeat("[", 1_000_000), strings.Repeat("[", 60_000), `{"id":7,"dishes":` + strings.Repeat(`[{"x":`, 9_000), with(`"id":7`, `"id":7,"id":7`), menu7("1,\"price\":2"),
		menu7("1e999"), menu7("-1"), menu7("NaN"), with("Shiro", `\ud800`), with("Shiro", `\udc00\ud800`), with("Shiro", "\xff"), with("Shiro", `a\r\nX: b`), with("Shiro", "a\r\nb"),
		link("javascript:alert(1)"), link(" javascript:alert(1)"), link("JAVASCRIPT:alert(1)"), link("data:text/html,x"), link(`https://a.example/\r\nX: b`), link("//evil.example"), with("7", "8"), "", "{}", "null",
	} {
		want("PUT /api/menu/7", body, bearer, asJSON)
	}
	for _, headers := range [][]string{
		{asJSON}, {asJSON, "Authorization: Bearer"}, {asJSON, "Authorization: Bearer " + token + "x"}, {asJSON, "Authorization: Basic " + token}, {asJSON, "Authorization: " + token},
		{asJSON, "X-Authorization: Bearer " + token}, {asJSON, "Cookie: token=" + token}, {bearer}, {bearer, "Content-Type: text/plain"}, {bearer, asJSON, "Content-Encoding: gzip"},
	} {
		for _, request := range []string{"PUT /api/menu/7", "POST /api/menu", "PATCH /api/menu/7/sold-out", "PUT /api/menu/7/availability"} {
			want(request, menu7("1"), headers...)
		}
	}
	want("DELETE /api/menu/7", "")
	want("DELETE /api/menu/7?token="+token, "")
}

// paths mean the same to every server, or nothing.
func paths(t *testing.T, s *system) {
	for _, path := range []string{
		"/menu/7", "/menu?ids=7", "/openapi.json", "/metrics", "/debug/pprof/", "/stub_status", "/cache", "/.env", "/%00", "/\\..\\admin",
		"/api/menu/../", "/api/menu/../menu/7", "/api/menu/7/../8", "/api/menu/./7", "/api/menu/%2e%2e/admin", "/api/menu/..%2f..%2fadmin", "/api/menu/7%2f..%2f8", "/api/menu/%252e%252e/8", "/api/menu/%37",
		"/api/menu/7/%2e%2e/8/metadata", "/api/menu/7/..;/8/metadata", "//api/menu/7", "/api//menu/7", "/api/menu//7", "/api%2fmenu/7", "/API/menu/7", "/api/menu/7/", "/api/menu/7%20", "/api/echo/../menu/7", "/api/echo//x",
		"/admin/../menu/7", "/admin/../openapi.json", "/admin/..%2fmenu/7", "/admin%2f..%2fmenu/7", "/x/../admin/log", "/menu/7/../../admin", "/menu/7/..%2f..%2fadmin/", "/restaurants/7/../../admin/", "/openapi.json/../admin",
		"/admin/%2e%2e/menu/7", "/admin/menus/7", "/admin/log", "//admin/log", "/%61dmin/log", "/administration/7", "/admin.json",
		"http://127.0.0.1:1/menu/7", "http://" + s.server + "/menu/7", "*",
	} {
		for _, method := range []string{"GET", "PUT"} {
			body := ""
			if method == "PUT" {
				body = menu7("1")
			}
			if got := ask(t, s.lb, method+" "+path, body, bearer, asJSON); got.status < 400 || got.status >= 500 || strings.Contains(got.body, `"dishes"`) {
				t.Errorf("%s %s: got status %d, %.200s", method, path, got.status, got.body)
			}
		}
	}
	const head = " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
	for name, c := range map[string]struct {
		text string
		want []int
	}{
		"another host's address": {"GET http://evil.example/api/menu/7" + head + "\r\n", []int{200}},
		"the pages of editors":   {"GET /admin" + head + "\r\n", []int{401}},
		"a tunnel":               {"CONNECT 127.0.0.1:22" + head + "\r\n", []int{400, 405}},
		"a trace":                {"TRACE /api/menu/7" + head + "\r\n", []int{405}},
		"a long path":            {"GET /api/menu/" + strings.Repeat("a", 3000) + head + "\r\n", []int{400}},
		"a longer one":           {"GET /api/menu/" + strings.Repeat("a", 5000) + head + "\r\n", []int{414}},
		"a long query":           {"GET /api/menu?ids=" + strings.Repeat("1,", 3000) + head + "\r\n", []int{414}},
		"a long header":          {"GET /api/menu/7" + head + "X: " + strings.Repeat("x", 20_000) + "\r\n\r\n", []int{400, 431}},
		"long headers":           {"GET /api/menu/7" + head + strings.Repeat("X: "+strings.Repeat("x", 3000)+"\r\n", 4) + "\r\n", []int{400, 431}},
		"many headers":           {"GET /api/menu/7" + head + strings.Repeat("X: 1\r\n", 10_000) + "\r\n", []int{400, 431}},
		"no host":                {"GET /api/menu/7 HTTP/1.1\r\n\r\n", []int{400}},
		"two hosts":              {"GET /api/menu/7" + head + "Host: y\r\n\r\n", []int{400}},
		"a host that is none":    {"GET /api/menu/7 HTTP/1.1\r\nHost: a/../b\r\n\r\n", []int{400}},
		"HTTP/1.0, no host":      {"GET /admin/log HTTP/1.0\r\n\r\n", []int{400, 401}},
		"a body of GET":          {"GET /api/menu/7" + head + "Content-Length: 2\r\n\r\n", []int{413}},
		"a body of HEAD":         {"HEAD /api/menu/7" + head + "Content-Length: 2\r\n\r\n", []int{413}},
		"chunks of GET":          {"GET /api/echo" + head + "Transfer-Encoding: chunked\r\n\r\n", []int{413}},
		"a body of a page":       {"GET /admin" + head + "Content-Length: 2\r\n\r\n", []int{413}},
		"a body of no bytes":     {"GET /api/menu/7" + head + "Content-Length: 0\r\n\r\n", []int{200}},
		"a large body":           {"PUT /api/menu/7" + head + "Content-Length: 10000000\r\n\r\n" + strings.Repeat("x", 20_000), []int{413, 0}},
		"no HTTP":                {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", []int{400}},
		"HTTP/2":                 {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{400, 0}},
	} {
		if got := again(func() answer { return exchange(t, "127.0.0.1", s.lb, strings.Fields(c.text)[0], c.text) }); !slices.Contains(c.want, got.status) {
			t.Errorf("%s: got status %d, %.200s, want %v", name, got.status, got.body, c.want)
		}
	}
}

// headers that a client names as meant for NGINX alone get to the other end. Where it says that
// it is does not.
func headers(t *testing.T, s *system) {
	for _, named := range []string{"Authorization", "authorization, X-Forwarded-For", "close, Authorization", "Host, Content-Length, X-Forwarded-For"} {
		for _, request := range []string{"GET /api/echo/x", "PUT /api/echo/x"} {
			got := from(t, "127.0.0.7", s.lb, request, "", "Connection: "+named, bearer, "X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2, 127.0.0.9", "X_Forwarded_For: 192.0.2.3", "Upgrade: h2c", "TE: trailers")
			if got.status != 200 || !strings.Contains(got.body, bearer) || strings.Contains(got.body, "192.0.2.") || strings.Contains(got.body, "h2c") || strings.Contains(got.body, "trailers") ||
				!strings.Contains(got.body, "X-Forwarded-For: 127.0.0.7, ") {
				t.Errorf("%s with Connection: %s: got %+v", request, named, got)
			}
		}
	}
	if got := ask(t, s.lb, "GET /admins/x", ""); got.status != 200 || !strings.HasPrefix(got.body, "GET /admins/x ") {
		t.Errorf("the path of a service that begins as that of the editors: got %+v", got)
	}
}

// foreign puts bytes into Redis where menus are: they are no menus, and nobody gets them.
func foreign(t *testing.T, s *system) {
	set := func(args ...string) { s.redis.Command(args...) }
	const key, target = "menus:30", "/api/menu/30"
	want := ask(t, s.server, "GET /menu/30", "")
	get := func(what string) {
		t.Helper()
		for range 2 {
			if got := ask(t, s.lb, "GET "+target, ""); got.status != 200 || got.body != want.body || got.header.Get("ETag") != want.header.Get("ETag") {
				t.Errorf("%s: got %+v, want %+v", what, got, want)
			}
			if got := ask(t, s.lb, "GET /restaurants/30", ""); got.status != 200 || !strings.Contains(got.body, "<html") {
				t.Errorf("%s: the page is %+v", what, got)
			}
		}
	}
	var good string
	wait(t, "the menu is in Redis", func() bool {
		get("nothing")
		good = s.redis.Command("GET", key)
		return strings.HasSuffix(good, want.body)
	})
	for _, n := range []int{0, 1, 2, 17, 33, 34, 35, len(good) / 2, len(good) - 1} {
		set("SET", key, good[:n])
		get(fmt.Sprintf("%d bytes of %d", n, len(good)))
	}
	for what, value := range map[string]string{
		"another version": "\x02" + good[1:], "another kind": "\x01x" + good[2:], "absent": "\x01a" + good[2:], "longer": good + "x", "changed": good[:len(good)-2] + "!}",
		"noise": strings.Repeat("\xfe\x01v", 1<<20/3), "JSON": `{"id":30,"dishes":[]}`, "HTML": "<script>alert(1)</script>", "CRLF": "\r\n+OK\r\n", "a lease of nobody": "\x01l",
	} {
		set("SET", key, value)
		get(what)
	}
	for _, args := range [][]string{{"RPUSH", "x"}, {"HSET", "a", "b"}, {"SADD", "x"}, {"SETBIT", "8000000", "1"}} {
		// At once: else a proxy may fill in the menu between the two.
		set(append([]string{"EVAL", "redis.call('DEL', KEYS[1]) return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))", "1", key}, args...)...)
		get(args[0])
	}
	// The entry of another menu, whole.
	wait(t, "another menu is in Redis", func() bool {
		ask(t, s.lb, "GET /api/menu/31", "")
		return s.redis.Command("COPY", "menus:31", key, "REPLACE") == "1"
	})
	get("another menu")
}

// flood asks for ids that nobody has. What that leaves in Redis goes by itself, and what is no
// id leaves nothing.
func flood(t *testing.T, s *system) {
	const first, count = 100_000, 400
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range count / 8 {
				if got := ask(t, s.lb, fmt.Sprintf("GET /api/menu/%d?x=%d", first+worker*count/8+i, i), ""); got.status != 404 {
					t.Errorf("got %+v", got)
				}
				ask(t, s.lb, fmt.Sprintf("GET /api/menu/%dx", first+i), "")
			}
		})
	}
	all.Wait()
	for key := range strings.SplitSeq(s.redis.Command("KEYS", "*"), "\n") {
		if key == "menus:\x00written" {
			continue // the journal of writes, see lookaside.Spare
		}
		id, err := strconv.Atoi(strings.TrimPrefix(key, "menus:"))
		if err != nil || strconv.Itoa(id) != strings.TrimPrefix(key, "menus:") {
			t.Errorf("Redis has %q", key)
		}
		life, err := strconv.Atoi(s.redis.Command("PTTL", key))
		if most := 90_000; id > menus && (err != nil || life == -1 || life > most) {
			t.Errorf("%s lives for %d ms, want %d at most", key, life, most)
		}
	}
}

// guessing of passwords is bounded by where it comes from, which the client does not choose.
func guessing(t *testing.T, s *system) {
	sign := func(client, with string, headers ...string) answer {
		return from(t, client, s.lb, "POST /admin/sign-in", "name=ada&password="+with,
			append(headers, "Content-Type: application/x-www-form-urlencoded", "Origin: http://"+s.lb)...)
	}
	limited := false
	for i := 0; i < 20 && !limited; i++ { // on a slow machine a try or two are given back
		got := sign("127.0.0.7", "wrong", fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", i), fmt.Sprintf("X-Real-IP: 192.0.2.%d", i), fmt.Sprintf("Forwarded: for=192.0.2.%d", i))
		if limited = got.status == 429; !limited && got.status != 401 {
			t.Fatalf("got %+v", got)
		}
	}
	if !limited {
		t.Error("one address may guess as often as it likes")
	}
	if got := sign("127.0.0.8", password, "X-Forwarded-For: 127.0.0.7"); got.status != 303 {
		t.Errorf("another address: got %+v", got)
	}
}

// slow clients are cut off in a time that their bytes do not lengthen.
func slow(t *testing.T, s *system) {
	var all sync.WaitGroup
	for _, request := range []string{
		"", "GET /api/menu/7 HTTP/1.1\r\nHost: x\r\nX: ", "GET /admin HTTP/1.1\r\nHost: x\r\nCookie: ",
		"GET /api/menu/7 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", "HEAD /api/echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;",
		"GET /admin HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", "PUT /api/menu/7 HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n",
	} {
		all.Go(func() {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.lb)
			if err != nil {
				t.Error(err)
				return
			}
			ended := make(chan struct{})
			go func() { defer close(ended); _, _ = io.Copy(io.Discard, conn) }()
			defer func() { _ = conn.Close(); <-ended }()
			_, _ = io.WriteString(conn, request)
			for end := time.Now().Add(deadline); time.Now().Before(end); {
				select {
				case <-ended:
					return
				case <-time.After(time.Second / 4):
					_, _ = io.WriteString(conn, "1")
				}
			}
			t.Errorf("%.60q and a byte at a time are waited for %v", request, deadline)
		})
	}
	all.Wait()
}

// held are as many requests as one address can hold by sending bodies slowly. There are no more,
// and nobody else is kept out. lb has the limit 40 there, in place of 500.
func held(t *testing.T, s *system) {
	const attacker, other = "127.0.0.17", "127.0.0.18"
	for request, ask := range map[string]struct {
		first, again string
		most         int
	}{
		"a write": {"PUT /api/menu/7", "GET /api/menu/7", 40},
		"a form":  {"POST /admin/sign-in", "GET /admin", 50},
	} {
		done := make(chan struct{})
		var holding sync.WaitGroup
		for range ask.most + 5 {
			holding.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
						hold(attacker, s.lbHeard, ask.first, done)
					}
				}
			})
		}
		wait(t, request+" is refused", func() bool {
			got := from(t, attacker, s.lbHeard, ask.again, "")
			if got.status == 429 && (got.header.Get("Retry-After") == "" || got.header.Get("Cache-Control") != "no-store" || !strings.Contains(got.body, `"code":"rate_limited"`)) {
				t.Errorf("%s: got %+v", request, got)
			}
			return got.status == 429
		})
		if got := from(t, other, s.lbHeard, ask.again, ""); got.status != 200 {
			t.Errorf("%s: another address got %+v", request, got)
		}
		close(done)
		holding.Wait()
		wait(t, "there is room again after "+request, func() bool { return from(t, attacker, s.lbHeard, ask.again, "").status == 200 })
	}
}

// unlimited has more requests under way than one address may, where MENU_LIMITS is off.
func unlimited(t *testing.T, s *system) {
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if got := from(t, "127.0.0.1", s.lbOpen, "GET /api/menu/7", ""); got.status != 200 {
				t.Errorf("got %+v, want 200", got)
			}
		})
	}
	all.Wait()
}

// hold sends a body byte by byte until it is cut off or done.
func hold(client, at, request string, done <-chan struct{}) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}}
	conn, err := dialer.Dial("tcp", at)
	if err != nil {
		return
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = io.Copy(io.Discard, conn) }()
	defer func() { _ = conn.Close(); <-ended }()
	_, _ = io.WriteString(conn, request+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000\r\n\r\n")
	for {
		select {
		case <-done:
			return
		case <-ended:
			return
		case <-time.After(time.Second / 2):
			_, _ = io.WriteString(conn, "x")
		}
	}
}

func wait(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !condition(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain until %s", deadline, what)
		}
	}
}

// down is what is said when nobody is left to ask, as the services themselves say it.
func down(t *testing.T, s *system) {
	for _, request := range []string{"GET /api/menu/7", "PUT /api/menu/7", "GET /restaurants/7", "GET /admin", "POST /admin/sign-in"} {
		method, _, _ := strings.Cut(request, " ")
		got := exchange(t, "127.0.0.1", s.lbDown, method, request+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if got.status != 503 || got.header.Get("Retry-After") == "" || got.header.Get("Cache-Control") != "no-store" || !strings.Contains(got.body, `{"error":{"code":"unavailable","message":"`) {
			t.Errorf("%s: got %+v", request, got)
		}
	}
}
