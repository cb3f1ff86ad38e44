package web

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// No request gets anything but one of the pages, opens a result without its
// code, or shows again what was typed as a code.
func FuzzHandle(f *testing.F) {
	f.Add("/", good, "application/x-www-form-urlencoded", "", "en", true)
	f.Add("/?lang=am", "id=%31&code=<script>&save", "application/x-www-form-urlencoded; x=y", "1.0.5.QQ", "am;q=0.1,*", true)
	f.Add("/wait", "", "", "1.1.123456.N1FYNE0yS0Q5MEFa", "", false)
	f.Add("/wait?lang=%00", "=&=&;&id&id=1&code=%", "multipart/form-data; boundary=x", "....", ";q=,", true)
	f.Add("//", "id=\xff\xfe&code=\x00", "APPLICATION/x-www-form-urlencoded", "\xff", "\xff", true)
	s := newSite(f, nil)
	plain := map[string]bool{}
	for _, e := range s.editions {
		for _, sheet := range e.sheets {
			var r fasthttp.Response
			sheet.write(&r, &values{})
			plain[tags(r.Body())] = true
		}
	}
	f.Fuzz(func(t *testing.T, target, body, media, kept, accept string, post bool) {
		method := "GET"
		if post {
			method = "POST"
		}
		r := ask(s, method, target, body, "Content-Type", media, "Cookie", cookieName+"="+kept, "Accept-Language", accept)
		status := r.StatusCode()
		if !slices.Contains([]int{200, 303, 400, 404, 405, 413, 415}, status) {
			t.Errorf("got status %d", status)
		}
		if status != 303 && !plain[tags(r.Body())] {
			t.Errorf("status %d: none of the pages: %s", status, tags(r.Body()))
		}
		opened := bytes.Contains(r.Body(), []byte("Tesfaye"))
		all := strings.ToUpper(body + kept)
		knew := strings.Contains(all, code) || strings.Contains(kept, "N1FYNE0yS0Q5MEFa") || strings.Contains(body, "%")
		if opened && !knew {
			t.Errorf("%q, cookie %q opened the page", body, kept)
		}
	})
}
