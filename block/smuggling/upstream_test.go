package smuggling

import "testing"

// The judge itself must be able to fail.
func TestAmbiguous(t *testing.T) {
	t.Parallel()
	const start = "POST / HTTP/1.1\r\nHost: x\r\n"
	for heard, want := range map[string]bool{
		start + "\r\n": false, start + "Content-Length: 2\r\n\r\nab": false,
		start + "Content-Length: 2\r\n\r\nabc": true, start + "\r\nabc": true, start + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n": true,
		start + "Transfer_Encoding : x\r\n\r\n": true, start + "X: a\nb: c\r\n\r\n": true, start + "X : a\r\n\r\n": true, "BREW / HTTP/1.1\r\n\r\n": true, start: true,
		start + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nab": true,
	} {
		if got := ambiguous(heard); (got != "") != want {
			t.Errorf("%q: got %q, want a complaint: %t", heard, got, want)
		}
	}
}
