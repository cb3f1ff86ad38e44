package web

import (
	"bytes"
	"compress/gzip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/system/results"
)

func TestResult(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	r := ask(s, "POST", "/?lang=en", good)
	wantStatus(t, r, 200)
	wantText(t, r, "<h1>Hanna Tesfaye Kebede</h1>", "Passed", "438 of 700", "7 April 2008", "Female",
		"Natural science", "Physics</th>", "<td>91</td>", "<td>62.6</td>", "<td>350</td>", `lang="en"`)
	wantNoText(t, r, code, "Geography", "@@", "Not passed")
	r = ask(s, "POST", "/?lang=en", "id=+123457+&code="+code)
	wantText(t, r, "Abdi Mohammed Ali", "Not passed", "Social science", "Male", "Geography</th>")
	r = ask(s, "POST", "/?lang=am", good)
	wantText(t, r, `lang="am"`, "አልፈዋል", "ኤፕሪል 7 ቀን 2008", "438 ከ700", "የተፈጥሮ ሳይንስ", "ሴት")
}

// A saved result has no links: where it is opened they lead nowhere.
func TestSavedResult(t *testing.T) {
	t.Parallel()
	r := ask(newSite(t, nil), "POST", "/", good+"&save=1")
	wantStatus(t, r, 200)
	wantText(t, r, "Hanna Tesfaye Kebede")
	wantNoText(t, r, "href=\"/")
	if got, want := header(r, "Content-Disposition"), `attachment; filename="result-123456.html"`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r = ask(newSite(t, nil), "POST", "/", "id=1&code=x&save=1")
	if got := header(r, "Content-Disposition"); got != "" {
		t.Errorf("a page that is no result would be saved: %q", got)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for name, c := range map[string]struct {
		method, target, body string
		want                 int
		text                 string
	}{
		"form":                 {"GET", "/", "", 200, "Access code"},
		"form with a query":    {"GET", "/?id=1&code=2&x=%zz", "", 200, "Access code"},
		"head":                 {"HEAD", "/", "", 200, "Access code"}, // the server leaves the body out
		"unknown id":           {"POST", "/", "id=5&code=" + code, 404, "There is no result"},
		"wrong code":           {"POST", "/", "id=123456&code=WRONG123", 404, "There is no result"},
		"empty form":           {"POST", "/", "", 400, "An id has"},
		"no id":                {"POST", "/", "code=" + code, 400, "An id has"},
		"no code":              {"POST", "/", "id=123456", 400, "Please enter the access code"},
		"blank code":           {"POST", "/", "id=123456&code=+%20%C2%A0", 400, "Please enter the access code"},
		"letters":              {"POST", "/", "id=abc&code=" + code, 400, "An id has"},
		"leading zero":         {"POST", "/", "id=0123456&code=" + code, 400, "An id has"},
		"zero":                 {"POST", "/", "id=0&code=" + code, 400, "An id has"},
		"sign":                 {"POST", "/", "id=-1&code=" + code, 400, "An id has"},
		"largest id":           {"POST", "/", "id=999999999999999999&code=" + code, 404, "There is no result"},
		"beyond the largest":   {"POST", "/", "id=9223372036854775808&code=" + code, 400, "An id has"},
		"SQL":                  {"POST", "/", "id=1'+OR+'1'%3D'1&code=" + code, 400, "An id has"},
		"SQL in the code":      {"POST", "/", "id=123456&code='+OR+1%3D1--", 404, "There is no result"},
		"long id":              {"POST", "/", "id=" + strings.Repeat("1", 65) + "&code=x", 400, "An id has"},
		"long code":            {"POST", "/", "id=123456&code=" + strings.Repeat("A", 129), 400, "Please enter the access code"},
		"longest code":         {"POST", "/", "id=123456&code=" + strings.Repeat("A", 128), 404, "There is no result"},
		"large form":           {"POST", "/", good + "&x=" + strings.Repeat("x", 1024), 413, "could not be read"},
		"code in the query":    {"POST", "/?" + good, "", 400, "An id has"},
		"other digits":         {"POST", "/", "id=%D9%A1%D9%A2&code=" + code, 400, "An id has"},
		"bad escapes":          {"POST", "/", "id=%zz&code=%", 400, "An id has"},
		"zero byte":            {"POST", "/", "id=123456%00&code=" + code, 400, "An id has"},
		"no such page":         {"GET", "/index.php", "", 404, "no such page"},
		"post to no such page": {"POST", "/x", good, 404, "no such page"},
		"traversal":            {"GET", "/../../etc/passwd", "", 404, "no such page"},
		"traversal to wait":    {"GET", "/x/../wait", "", 404, "no such page"},
		"put":                  {"PUT", "/", "", 405, "cannot be used in this way"},
		"options":              {"OPTIONS", "/", "", 405, "cannot be used in this way"},
		"invented method":      {"SPEND", "/", "", 405, "cannot be used in this way"},
		"post to wait":         {"POST", "/wait", good, 405, "cannot be used in this way"},
		"wait for nothing":     {"GET", "/wait", "", 303, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := ask(s, c.method, c.target, c.body)
			wantStatus(t, r, c.want)
			wantText(t, r, c.text)
		})
	}
	r := ask(s, "POST", "/", `{"id":1}`, "Content-Type", "application/json")
	wantStatus(t, r, 415)
	wantStatus(t, ask(s, "POST", "/", good, "Content-Type", "Application/X-WWW-Form-Urlencoded; charset=UTF-8"), 200)
	wantStatus(t, ask(s, "POST", "/", good, "Content-Type", ""), 415)
}

// An unknown id and a wrong code get the same answer to the last byte, headers
// included.
func TestNoOracle(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	unknown := ask(s, "POST", "/", "id=123455&code=NOTTHECODE")
	wrong := ask(s, "POST", "/", "id=123456&code=NOTTHECODE")
	if got, want := strings.ReplaceAll(wrong.String(), "123456", "123455"), unknown.String(); got != strings.ReplaceAll(want, "123456", "123455") {
		t.Errorf("wrong code:\n%s\nunknown id:\n%s", got, want)
	}
	wantText(t, wrong, `value="123456"`)
	wantNoText(t, wrong, "NOTTHECODE")
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for _, r := range []*fasthttp.Response{
		ask(s, "GET", "/", ""), ask(s, "POST", "/", good), ask(s, "POST", "/", "id=1&code=1"), ask(s, "GET", "/x", ""), ask(s, "PUT", "/", ""),
	} {
		for name, want := range map[string]string{
			"Content-Type": "text/html; charset=utf-8", "Referrer-Policy": "no-referrer",
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Content-Language": "en", "Vary": "Accept-Language",
		} {
			if got := header(r, name); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
		policy := header(r, "Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'", "style-src 'sha256-"} {
			if !strings.Contains(policy, want) {
				t.Errorf("policy %q lacks %q", policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("policy %q allows what is unsafe", policy)
		}
	}
	if got, want := header(ask(s, "POST", "/", good), "Cache-Control"), "no-store"; got != want {
		t.Errorf("a result's Cache-Control: got %q, want %q", got, want)
	}
	if got, want := header(ask(s, "DELETE", "/", ""), "Allow"), "GET, HEAD, POST"; got != want {
		t.Errorf("Allow: got %q, want %q", got, want)
	}
}

// Nothing that a student, a form or an address brings becomes part of the page's
// structure.
func TestInjection(t *testing.T) {
	t.Parallel()
	const evil = `"'><script>alert(1)</script><img src=x onerror=alert(2)>@@id@@&lt;` + "\u2028"
	form := "id=" + escapeForm(evil[:60]) + "&code=" + escapeForm(evil)
	s := newSite(t, func(c *Config) {
		c.Lookup = func(*fasthttp.RequestCtx, int64, []byte) results.Decision {
			h := hanna()
			h.Name, h.School, h.Region = evil, evil, evil
			return results.Decision{Page: results.NewPage(&h)}
		}
	})
	plain := tags(ask(newSite(t, nil), "POST", "/", good).Body())
	for name, r := range map[string]*fasthttp.Response{
		"result": ask(s, "POST", "/", good),
		"id":     ask(s, "POST", "/?lang="+escapeForm(evil), form),
		"path":   ask(s, "GET", "/"+escapeForm(evil), ""),
		"host":   ask(s, "GET", "/", "", "Host", evil, "Accept-Language", evil, "Cookie", cookieName+"="+evil),
	} {
		wantNoText(t, r, "<script", "<img", "onerror=alert(2)>")
		if name == "result" && tags(r.Body()) != plain {
			t.Errorf("got the elements\n%s\nwant\n%s", tags(r.Body()), plain)
		}
	}
	wantText(t, ask(s, "POST", "/", good), "&lt;script&gt;", "@@id@@") // what is filled in is not looked at again
	h := hanna()
	h.Sex = 0
	body := bytes.Replace(results.NewPage(&h).Body, []byte(`"sex":""`), []byte(`"sex":"<b>"`), 1)
	s = newSite(t, func(c *Config) { c.Lookup = always(results.Decision{Page: results.Page{Body: body}}) })
	wantText(t, ask(s, "POST", "/", good), "<dd>&lt;b&gt;</dd>")
}

func escapeForm(text string) string { return string(fasthttp.AppendQuotedArg(nil, []byte(text))) }

// tags lists a page's elements without their text.
func tags(page []byte) string {
	return string(bytes.Join(regexp.MustCompile(`</?[a-zA-Z][a-z0-9]*`).FindAll(page, -1), nil))
}

func TestEmbargo(t *testing.T) {
	t.Parallel()
	p := results.Publication{At: now.Add(100 * time.Minute).In(addisAbaba), Left: 100 * time.Minute}
	find, asked := counting(results.Decision{Err: results.ErrEmbargoed, PublishAt: p.At, RetryAfter: p.Left})
	s := newSite(t, func(c *Config) {
		c.Lookup, c.Publication = find, func() results.Publication { return p }
	})
	r := ask(s, "GET", "/", "")
	wantStatus(t, r, 200)
	wantText(t, r, "21 November 2026 at 10:40 (UTC+03:00), in 100 minutes", `content="1800;url=/?lang=en"`)
	if got := header(r, "Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control: got %q, want no-store: the wait differs for everybody", got)
	}
	if got := asked.Load(); got != 0 {
		t.Errorf("got %d look-ups for a GET, want 0", got)
	}
	r = ask(s, "POST", "/", good)
	wantStatus(t, r, 403)
	wantText(t, r, "Results are not out yet")
	if got := header(r, "Retry-After"); got != "1800" {
		t.Errorf("Retry-After: got %q, want 1800", got)
	}
	wantText(t, ask(s, "GET", "/?lang=am", ""), "ኖቬምበር 21 ቀን 2026", "10:40", "ከ100 ደቂቃ በኋላ")
	// Late, because the store has not said that it is over.
	p.Left = -time.Minute
	wantText(t, ask(s, "GET", "/", ""), "Results are not out yet", `content="1;url=/?lang=en"`)
	// From then on, the form; and as long as nobody knows.
	for _, p = range []results.Publication{{Out: true}, {Out: true, At: now}, {}} {
		wantText(t, ask(s, "GET", "/", ""), "<form")
	}
	// A time without end is no reason to fail.
	for _, at := range []time.Time{{}, now.AddDate(9000, 0, 0)} {
		s := newSite(t, func(c *Config) {
			c.Lookup = always(results.Decision{Err: results.ErrEmbargoed, PublishAt: at, RetryAfter: time.Until(at)})
		})
		wantStatus(t, ask(s, "POST", "/", good), 403)
	}
}

func TestDown(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *Config) { c.Lookup = always(results.Decision{Err: results.ErrUnavailable}) })
	r := ask(s, "POST", "/", good)
	wantStatus(t, r, 503)
	wantText(t, r, "Results cannot be shown at the moment")
	if got := header(r, "Retry-After"); got != "30" {
		t.Errorf("Retry-After: got %q, want 30", got)
	}
	static, err := DownPage("en")
	if err != nil || !bytes.Equal(static, r.Body()) {
		t.Errorf("the page for balancers differs from the one that is shown")
	}
	if _, err := DownPage("xx"); err == nil || !strings.Contains(err.Error(), "en") {
		t.Error("got a page in a language that does not exist")
	}
}

func TestPanic(t *testing.T) {
	t.Parallel()
	told := 0
	s := newSite(t, func(c *Config) {
		c.Lookup = func(*fasthttp.RequestCtx, int64, []byte) results.Decision { panic("the tests' panic") }
		c.Panicked = func(any, []byte) { told++ }
	})
	r := ask(s, "POST", "/", good)
	wantStatus(t, r, 500)
	wantNoText(t, r, "the tests' panic")
	if told != 1 {
		t.Errorf("told %d times, want once", told)
	}
}

// A store that holds something else than results must not show half a one.
func TestDamaged(t *testing.T) {
	t.Parallel()
	h := hanna()
	whole := string(results.NewPage(&h).Body)
	reg := prometheus.NewRegistry()
	n := 0
	var body string
	s := newSite(t, func(c *Config) {
		c.Registerer = reg
		c.Lookup = func(*fasthttp.RequestCtx, int64, []byte) results.Decision {
			return results.Decision{Page: results.Page{Body: []byte(body)}}
		}
	})
	for _, body = range []string{
		"", "null", "{}", "[]", whole[:len(whole)-1], strings.Replace(whole, "natural", "unnatural", 1),
		strings.Replace(whole, `"physics":91,`, "", 1), strings.Replace(whole, `"physics":91`, `"physics":101`, 1),
		strings.Replace(whole, "2008-04-07", "2008-02-30", 1), strings.Replace(whole, `"average":`, `"mean":`, 1),
	} {
		n++
		r := ask(s, "POST", "/", good)
		wantStatus(t, r, 503)
		wantNoText(t, r, "Hanna")
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "results_web_damaged_total" {
			if got := int(f.GetMetric()[0].GetCounter().GetValue()); got != n {
				t.Errorf("got %d counted as damaged, want %d", got, n)
			}
		}
	}
}

// A page is one response: under 50 kB, and nothing in it makes a browser ask for
// more.
func TestSize(t *testing.T) {
	t.Parallel()
	for _, e := range newSite(t, nil).editions {
		for p, sheet := range e.sheets {
			var r fasthttp.Response
			var v values
			for i := range v {
				v[i] = strings.Repeat("&", results.MaxTextBytes)
			}
			sheet.write(&r, &v)
			if got, most := len(r.Body()), 50_000; got > most {
				t.Errorf("%s, page %s: %d bytes at the worst, want at most %d", e.code, designs[p].name, got, most)
			}
			sheet.write(&r, &values{})
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write(r.Body())
			_ = z.Close()
			if b.Len() > 5000 {
				t.Errorf("%s, page %s: %d bytes compressed, want at most 5000", e.code, designs[p].name, b.Len())
			}
			t.Logf("%s %-12s %5d bytes, %4d with gzip", e.code, designs[p].name, len(r.Body()), b.Len())
			for _, link := range regexp.MustCompile(`(?:src|href|url)\s*[=(]\s*["']?([^"'>)]*)`).FindAllStringSubmatch(string(r.Body()), -1) {
				if to := link[1]; to != "data:," && !strings.HasPrefix(to, "/?lang=") && !strings.HasPrefix(to, "/wait?lang=") {
					t.Errorf("%s, page %s: refers to %q", e.code, designs[p].name, to)
				}
			}
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"no look-up":     func(c *Config) { c.Lookup = nil },
		"no publication": func(c *Config) { c.Publication = nil },
		"no registerer":  func(c *Config) { c.Registerer = nil },
		"no spread":      func(c *Config) { c.Spread = 0 },
		"a long spread":  func(c *Config) { c.Spread = time.Hour },
		"no panicked":    func(c *Config) { c.Panicked = nil },
	} {
		cfg := DefaultConfig()
		cfg.Lookup, cfg.Registerer, cfg.Panicked = lookup, prometheus.NewRegistry(), func(any, []byte) {}
		cfg.Publication = func() results.Publication { return results.Publication{Out: true} }
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}
