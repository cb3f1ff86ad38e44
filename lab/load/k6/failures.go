package k6

import (
	"fmt"
	"strconv"
	"strings"

	"loadstone/lab/load/failure"
)

// codes are k6's error codes as its documentation lists them: 10xx general,
// 11xx names, 12xx TCP, 13xx TLS, 16xx HTTP/2. 14xx and 15xx are statuses,
// which are no errors here. The first range that has a code counts.
var codes = []struct {
	from, to int
	kind     failure.Kind
}{
	{1400, 1599, failure.None},
	{1050, 1050, failure.Timeout},
	{1211, 1211, failure.Timeout},
	{1212, 1212, failure.Refused},
	{1201, 1201, failure.Reset},
	{1220, 1220, failure.Reset},
	{1020, 1020, failure.Dial},
	{1100, 1199, failure.Dial},
	{1210, 1219, failure.Dial},
	{1300, 1399, failure.TLS},
	{1600, 1699, failure.Protocol},
}

// kindOf names the kind of a failed request.
func kindOf(t tags) failure.Kind {
	code, err := strconv.Atoi(t.ErrorCode)
	if err != nil {
		return failure.None // the script disagrees with the status, or the tag is switched off
	}
	if strings.Contains(t.Error, "cannot assign requested address") || strings.Contains(t.Error, "too many open files") {
		return failure.PortExhausted
	}
	for _, c := range codes {
		if code >= c.from && code <= c.to {
			return c.kind
		}
	}
	if strings.Contains(t.Error, "EOF") {
		return failure.EOF
	}
	return failure.BadHTTP // an answer that k6 could not read
}

// example describes one failure for people.
func example(t tags) string {
	text := fmt.Sprintf("k6 error %s", t.ErrorCode)
	if t.Error != "" {
		text += ": " + t.Error
	}
	if t.URL != "" {
		text += " (" + t.URL + ")"
	}
	return clip(text)
}

// clip bounds a text that is kept for people.
func clip(text string) string {
	const most = 300
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " …"
}
