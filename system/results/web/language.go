package web

import (
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// Bounds of an Accept-Language header, in bytes and in ranges: browsers send a
// handful. What is beyond is not read.
const (
	maxAcceptBytes  = 256
	maxAcceptRanges = 16
)

// language finds the index in languageCodes for a request: ?lang= if it names
// one, else what the browser likes best of those, else the first.
func language(ctx *fasthttp.RequestCtx) int {
	if len(ctx.URI().QueryString()) > 0 {
		if i, ok := known(string(ctx.QueryArgs().Peek("lang"))); ok {
			return i
		}
	}
	return preferred(string(ctx.Request.Header.Peek(fasthttp.HeaderAcceptLanguage)))
}

// known compares the first part of a tag, am of am-ET, with the languages.
func known(tag string) (int, bool) {
	tag, _, _ = strings.Cut(tag, "-")
	for i, code := range languageCodes {
		if strings.EqualFold(tag, code) {
			return i, true
		}
	}
	return 0, false
}

// preferred reads an Accept-Language header (RFC 9110, 12.5.4): ranges with
// weights from 0 to 1, the heaviest first named wins. A weight that is not a
// number counts as 0, which is never.
func preferred(accept string) int {
	if len(accept) > maxAcceptBytes {
		accept = accept[:maxAcceptBytes]
	}
	best, heaviest := 0, 0.0
	for range maxAcceptRanges {
		element, rest, more := strings.Cut(accept, ",")
		tag, parameter, weighted := strings.Cut(element, ";")
		weight := 1.0
		if weighted {
			weight = quality(parameter)
		}
		if i, ok := known(strings.TrimSpace(tag)); ok && weight > heaviest {
			best, heaviest = i, weight
		}
		if !more {
			break
		}
		accept = rest
	}
	return best
}

// quality reads q=0.8.
func quality(parameter string) float64 {
	name, value, _ := strings.Cut(parameter, "=")
	if !strings.EqualFold(strings.TrimSpace(name), "q") {
		return 0
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || !(q >= 0 && q <= 1) { // so written, NaN is refused too
		return 0
	}
	return q
}
