package httpapi_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/system/menu"
	"loadstone/system/menu/httpapi"
)

// never is a daypart at which a dish of menu 7 is served, though not on the day of any test.
var never = func() string {
	day := strings.ToLower(time.Now().UTC().AddDate(0, 0, 3).Format("Mon"))
	return `{"timeZone":"UTC","dayparts":[{"name":"late","days":["` + day + `"],"from":"22:00","to":"23:00","sections":["dinner"]}],"soldOut":[]}`
}()

func TestAvailability(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	before := f.db.state()
	const everything = `{"id":7,"served":["dinner"],"notServed":[],"soldOut":[],"changes":null}`
	f.ask(t, "GET /menu/7/availability", "").want(t, 404, `"no_availability"`)
	f.ask(t, "GET /menu/7/now", "").want(t, 200, everything, "ETag", tagOf(everything), "Cache-Control", "public, max-age=5")
	f.ask(t, "GET /menu/7/now", "", "If-None-Match: "+tagOf(everything)).want(t, 304, "", "Cache-Control", "public, max-age=5")

	f.write(t, "PUT /menu/7/availability", never).want(t, 200, never, "ETag", tagOf(never), "X-Menu-Version", "")
	f.ask(t, "GET /menu/7/availability", "").want(t, 200, never, "ETag", tagOf(never), "Cache-Control", "public, no-cache")
	f.ask(t, "GET /menu/7/availability", "", "If-None-Match: "+tagOf(never)).want(t, 304, "")
	f.ask(t, "GET /menu/7/now", "").want(t, 200, `{"id":7,"served":[],"notServed":["dinner"],"soldOut":[],"changes":"20`)

	// One request from the kitchen, whatever else there is.
	f.write(t, "PATCH /menu/7/sold-out", `{"dish":"shiro","soldOut":true}`).want(t, 200, `"from":"22:00","to":"23:00","sections":["dinner"]}],"soldOut":[{"dish":"Shiro"}]}`)
	f.ask(t, "GET /menu/7/now", "").want(t, 200, `"soldOut":["Shiro"]`)
	f.write(t, "PATCH /menu/7/sold-out", `{"dish":"Shiro","soldOut":true,"until":"2001-01-01T00:00:00Z"}`).want(t, 200, `"until":"2001-01-01T00:00:00Z"`)
	f.ask(t, "GET /menu/7/now", "").want(t, 200, `"soldOut":[]`)
	f.write(t, "PATCH /menu/7/sold-out", `{"dish":"Shiro","soldOut":false}`).want(t, 200, never)

	f.ask(t, "DELETE /menu/7/availability", "", bearer).want(t, 204, "")
	f.ask(t, "DELETE /menu/7/availability", "", bearer).want(t, 404, `"no_availability"`)
	f.ask(t, "GET /menu/7/now", "").want(t, 200, everything)
	f.write(t, "PATCH /menu/7/sold-out", `{"dish":"Shiro","soldOut":true}`).want(t, 200, `{"dayparts":[],"soldOut":[{"dish":"Shiro"}]}`)

	for _, rest := range []string{"availability", "now"} {
		f.ask(t, "GET /menu/6/"+rest, "").want(t, 404, "")
	}
	f.write(t, "PUT /menu/6/availability", never).want(t, 404, `"not_found"`)
	f.write(t, "PATCH /menu/9/sold-out", `{"dish":"Shiro","soldOut":true}`).want(t, 404, `"not_found"`)
	f.ask(t, "GET /menu/8/now", "").want(t, 200, `{"id":8,"served":[],"notServed":[],"soldOut":[],"changes":null}`) // a link
	if f.db.state() != before {
		t.Errorf("menus are\n%s\nwant\n%s", f.db.state(), before)
	}
	f.ask(t, "GET /menu/7", "").want(t, 200, seven, "ETag", tagOf(seven), "X-Menu-Version", "2")
}

// No answer is kept beyond the time at which it changes by itself.
func TestNowEndsWhenItChanges(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	until := time.Now().Add(1500 * time.Millisecond).UTC().Format(time.RFC3339) // in 0.5 to 1.5 s
	f.write(t, "PATCH /menu/7/sold-out", `{"dish":"Shiro","soldOut":true,"until":"`+until+`"}`).want(t, 200, "")
	for ; ; time.Sleep(20 * time.Millisecond) {
		got := f.ask(t, "GET /menu/7/now", "")
		if strings.Contains(got.Body, `"soldOut":[]`) {
			got.want(t, 200, `"changes":null`, "Cache-Control", "public, max-age=5")
			return
		}
		if got.want(t, 200, `"changes":"`+until); got.Header.Get("Cache-Control") > "public, max-age=1" {
			t.Errorf("got %s, and it changes at %s", got.Header.Get("Cache-Control"), until)
		}
	}
}

func TestAvailabilitiesThatAreRefused(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.write(t, "PUT /menu/7/availability", never).want(t, 200, "")
	sold := `{"dish":"Shiro","soldOut":true}`
	for _, c := range []struct {
		request, body, header string
		status                int
		text                  string
	}{
		{"PUT /menu/7/availability", `{"soldOut":[{"dish":"a"}],"soldOut":[]}`, "X: y", 400, "bad_input"},
		{"PUT /menu/7/availability", `{"timeZone":"x"}`, "X: y", 400, "such as Europe/Berlin"},
		{"PUT /menu/7/availability", strings.Repeat("[", 60_000), "X: y", 400, "bad_input"},
		{"PUT /menu/7/availability", never, `If-Match: "x"`, 412, "changed"},
		{"PUT /menu/7/availability", never, "If-None-Match: *", 412, "changed"},
		{"PUT /menu/7/availability", never, "If-Match: x", 400, "bad_condition"},
		{"DELETE /menu/7/availability", "", "If-Match: " + tagOf(seven), 412, "changed"},
		{"PATCH /menu/7/sold-out", sold, `If-Match: "x"`, 412, "changed"},
		{"PATCH /menu/7/sold-out", sold, "If-Match: " + tagOf(seven), 412, "changed"},
		{"PATCH /menu/7/sold-out", `{"dish":"Shirro","soldOut":true}`, "X: y", 422, "write its name as it stands there"},
		{"PATCH /menu/8/sold-out", sold, "X: y", 422, "write its name as it stands there"},
		{"PATCH /menu/7/sold-out", `{"dish":"Shiro"}`, "X: y", 400, "soldOut is missing"},
		{"PATCH /menu/7/sold-out", `{"dish":"Shiro","soldOut":false,"until":"2030-01-01T00:00:00Z"}`, "X: y", 400, "leave it out"},
		{"PATCH /menu/7/sold-out", `{"dish":"","soldOut":true}`, "X: y", 400, "dish is empty"},
		{"PATCH /menu/7/sold-out", `{"soldOut":1}`, "X: y", 400, "wrong kind"},
		{"PATCH /menu/x/sold-out", sold, "X: y", 400, "malformed_id"},
		{"GET /menu/7/sold-out", "", "X: y", 405, "method_not_allowed"},
	} {
		got := f.write(t, c.request, c.body, c.header)
		got.want(t, c.status, c.text)
		if c.status == 412 {
			got.want(t, 412, "", "ETag", tagOf(never))
		}
	}
	f.ask(t, "GET /menu/7/availability", "").want(t, 200, never)
	f.write(t, "PATCH /menu/7/sold-out", sold, "If-Match: "+tagOf(never)).want(t, 200, "Shiro")
	f.write(t, "PUT /menu/7/availability", never, "If-Match: *").want(t, 200, never)

	readOnly := start(t, func(c *httpapi.Config) { c.Store = published{newMemory(t)} })
	locked := start(t, func(c *httpapi.Config) { c.Token = "" })
	for _, request := range []string{"PUT /menu/7/availability", "DELETE /menu/7/availability", "PATCH /menu/7/sold-out"} {
		f.ask(t, request, sold, asJSON).want(t, 401, "unauthorized")
		locked.ask(t, request, sold, asJSON).want(t, 403, "locked")
		readOnly.write(t, request, sold).want(t, 405, "published")
	}
	readOnly.ask(t, "GET /menu/7/availability", "").want(t, 404, "no_availability")
	readOnly.ask(t, "GET /menu/7/now", "").want(t, 200, `"served":["dinner"]`)
}

// Ten tablets mark a dish each: none is lost.
func TestNoMarkIsLost(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	var dishes []string
	for i := range 10 {
		dishes = append(dishes, strings.Replace(shiro, "Shiro", fmt.Sprint("dish ", i), 1))
	}
	f.write(t, "PUT /menu/7", `{"dishes":[`+strings.Join(dishes, ",")+`]}`).want(t, 200, "")
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			f.write(t, "PATCH /menu/7/sold-out", fmt.Sprintf(`{"dish":"dish %d","soldOut":true}`, i)).want(t, 200, fmt.Sprint("dish ", i))
		})
	}
	all.Wait()
	got := f.ask(t, "GET /menu/7/now", "")
	for i := range 10 {
		got.want(t, 200, fmt.Sprintf(`"dish %d"`, i))
	}
}

func TestAvailabilityOfAStoreThatFails(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.db.mu.Lock()
	f.db.texts[7] = menu.Document{Body: []byte("{")}
	f.db.mu.Unlock()
	f.ask(t, "GET /menu/7/now", "").want(t, 500, `"internal"`)
	f.db.fail(errors.Join(errors.New("/secret"), menu.ErrUnavailable))
	for _, request := range []string{"GET /menu/7/now", "GET /menu/7/availability", "PUT /menu/7/availability", "DELETE /menu/7/availability", "PATCH /menu/7/sold-out"} {
		body := ""
		switch request[:3] {
		case "PUT":
			body = never
		case "PAT":
			body = `{"dish":"Shiro","soldOut":true}`
		}
		if got := f.write(t, request, body); strings.Contains(got.Body, "secret") {
			t.Errorf("the client was told %s", got.Body)
		} else {
			got.want(t, 503, `"unavailable"`)
		}
	}
}
