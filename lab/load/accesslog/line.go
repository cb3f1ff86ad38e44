package accesslog

import (
	"bytes"
	"strings"
	"time"
)

// The methods whose requests can be repeated.
const (
	methodGet  = "GET"
	methodHead = "HEAD"
)

// request is one line, understood.
type request struct {
	text   []byte // the line; valid until the next is read
	second int64  // by the Unix clock
	head   bool   // HEAD, not GET
	target []byte // as in Entry; reused from line to line
}

// parse reads a line such as
//
//	127.0.0.1 - ann [10/Oct/2026:13:55:36 +0200] "GET /a?b HTTP/1.1" 200 2326 "http://…" "Mozilla/5.0 …"
//
// without a line end. What follows the size of the answer is not looked at.
func (r *request) parse(text []byte) reason {
	r.text = text
	second, rest, ok := cutTime(text)
	if !ok {
		return notALine
	}
	line, rest, ok := cutQuoted(rest)
	if !ok {
		return notALine
	}
	status, ok := cutStatus(rest)
	if !ok {
		return notALine
	}
	method, raw, ok := splitRequest(line)
	switch {
	case !ok:
		return noRequest
	case string(method) != methodGet && string(method) != methodHead:
		return otherMethod
	case len(raw) == 0 || raw[0] != '/':
		return otherForm
	case string(status) == "101":
		return upgrade
	}
	r.second, r.head = second, string(method) == methodHead
	r.target = appendTarget(r.target[:0], raw)
	return fine
}

// timeLength is that of 10/Oct/2026:13:55:36 +0200.
const timeLength = 26

// cutTime finds the time of a line and returns what follows the quote after it.
// The user's name before it may have blanks and brackets of its own.
func cutTime(text []byte) (second int64, rest []byte, ok bool) {
	for at := 0; ; {
		bracket := bytes.Index(text[at:], []byte(" ["))
		if bracket < 0 {
			return 0, nil, false
		}
		at += bracket + 2
		if len(text) < at+timeLength || !bytes.HasPrefix(text[at+timeLength:], []byte(`] "`)) {
			continue
		}
		if second, ok := parseTime(text[at : at+timeLength]); ok {
			return second, text[at+timeLength+3:], true
		}
	}
}

// parseTime reads a time of timeLength bytes as seconds of the Unix clock.
func parseTime(b []byte) (int64, bool) {
	if b[2] != '/' || b[6] != '/' || b[11] != ':' || b[14] != ':' || b[17] != ':' || b[20] != ' ' {
		return 0, false
	}
	day, ok1 := parseDate(b[:11])
	hour, ok2 := parseNumber(b[12:14], 23)
	minute, ok3 := parseNumber(b[15:17], 59)
	second, ok4 := parseNumber(b[18:20], 60) // a leap second is the first of the next minute
	zone, ok5 := parseZone(b[21:])
	return day + hour*3600 + minute*60 + second - zone, ok1 && ok2 && ok3 && ok4 && ok5
}

// parseDate reads a date such as 10/Oct/2026 as the second that its day begins
// with, by the Unix clock.
func parseDate(b []byte) (int64, bool) {
	day, ok1 := parseNumber(b[0:2], 31)
	month := strings.Index("JanFebMarAprMayJunJulAugSepOctNovDec", string(b[3:6]))
	year, ok2 := parseNumber(b[7:11], 9999)
	if !ok1 || !ok2 || month < 0 || month%3 != 0 {
		return 0, false
	}
	date := time.Date(int(year), time.Month(month/3+1), int(day), 0, 0, 0, 0, time.UTC)
	return date.Unix(), date.Day() == int(day) // else the month is shorter
}

// parseZone reads a time zone such as +0200 as seconds east of Greenwich.
func parseZone(b []byte) (int64, bool) {
	hours, ok1 := parseNumber(b[1:3], 15)
	minutes, ok2 := parseNumber(b[3:5], 59)
	zone := hours*3600 + minutes*60
	if b[0] == '-' {
		zone = -zone
	}
	return zone, ok1 && ok2 && (b[0] == '+' || b[0] == '-')
}

// parseNumber reads digits, and says whether they are that and at most most.
func parseNumber(b []byte, most int64) (int64, bool) {
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n <= most
}

// cutQuoted returns what stands before the next quote that no backslash
// escapes, and what follows it.
func cutQuoted(text []byte) (quoted, rest []byte, ok bool) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return text[:i], text[i+1:], true
		}
	}
	return nil, nil, false
}

// cutStatus returns the status of " 200 2326" or " 304 -", and whether the
// text begins like that.
func cutStatus(text []byte) (status []byte, ok bool) {
	if len(text) < 6 || text[0] != ' ' || text[4] != ' ' || !allDigits(text[1:4]) {
		return nil, false
	}
	size, _, _ := bytes.Cut(text[5:], []byte(" "))
	return text[1:4], string(size) == "-" || allDigits(size)
}

// allDigits says whether b is digits, one at least.
func allDigits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}

// splitRequest splits a request's first line into its method and its target,
// which some servers let have blanks. It is false if it is no such line: what
// speaks TLS to a port for HTTP leaves bytes, and who sends nothing a dash.
func splitRequest(line []byte) (method, target []byte, ok bool) {
	first, last := bytes.IndexByte(line, ' '), bytes.LastIndexByte(line, ' ')
	if first <= 0 || first == last || !bytes.HasPrefix(line[last+1:], []byte("HTTP/")) {
		return nil, nil, false
	}
	for _, c := range line[:first] {
		if (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return nil, nil, false
		}
	}
	return line[:first], line[first+1 : last], true
}

// appendTarget appends a target, without the escapes of the log and with those
// of a URI. %XX in it stays, and so do characters that the standard forbids and
// browsers send, such as | and [: the server took them, and its caches know the
// target by them.
func appendTarget(dst, raw []byte) []byte {
	const hexDigits = "0123456789ABCDEF"
	for len(raw) > 0 {
		c, length := unescape(raw)
		raw = raw[length:]
		switch {
		case c <= ' ' || c >= 0x7f, c == '"', c == '#', c == '<', c == '>', c == '\\':
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// unescape returns the byte that raw begins with, and how many bytes it takes
// there. Servers write \x22 for a quote (NGINX), or \" (Apache), and \n.
func unescape(raw []byte) (c byte, length int) {
	if raw[0] != '\\' || len(raw) == 1 {
		return raw[0], 1
	}
	if short := strings.IndexByte(`"\nrtbfv`, raw[1]); short >= 0 {
		return "\"\\\n\r\t\b\f\v"[short], 2
	}
	if raw[1] == 'x' && len(raw) >= 4 {
		high, ok1 := fromHex(raw[2])
		low, ok2 := fromHex(raw[3])
		if ok1 && ok2 {
			return high<<4 | low, 4
		}
	}
	return '\\', 1
}

// fromHex is the value of a hexadecimal digit.
func fromHex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	default:
		return 0, false
	}
}
