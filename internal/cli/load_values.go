package cli

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/load"
	"loadstone/lab/load/feed"
)

// cutMetric splits METRIC: EXPRESSION; a selector in the metric has colons of
// its own.
func cutMetric(text string) (metric, expression string, ok bool) {
	at := strings.LastIndex(text, "}") + 1
	name, expression, ok := strings.Cut(text[at:], ":")
	return strings.TrimSpace(text[:at] + name), strings.TrimSpace(expression), ok
}

// parseRate takes 500/s, 300/m or 20/h.
func parseRate(flag, text string) (float64, error) {
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(number, 64)
	if err == nil && unit == "" && n > 0 {
		return 0, usagef("%s %s has no unit; write %s/s, or %s/m for a minute", flag, text, number, number)
	}
	per, ok := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	if err != nil || !ok || !(n > 0) {
		return 0, usagef("%s %q is no rate; write requests per second, minute or hour, such as 500/s", flag, text)
	}
	return n / per, nil
}

// parseCheck takes status=200,204, body=TEXT and PATH=VALUE.
func parseCheck(text string) (load.Check, error) {
	what, value, ok := strings.Cut(text, "=")
	c := load.Check{Name: text}
	switch {
	case !ok || what == "":
		return c, usagef("--check %q is no check; write status=200, body=TEXT or PATH=VALUE", text)
	case what == "status":
		for one := range strings.SplitSeq(value, ",") {
			status, err := strconv.Atoi(one)
			if err != nil {
				return c, usagef("--check %q: %q is no status; write numbers such as 200,204", text, one)
			}
			c.Status = append(c.Status, status)
		}
	case what == "body":
		c.Contains = value
	default:
		c.JSON, c.Equals = what, &value
	}
	return c, nil
}

// feedKinds read what follows the kind of a feed.
var feedKinds = map[string]func(args string, f *feed.Feed) bool{
	"uniform":    func(args string, f *feed.Feed) (ok bool) { f.Uniform, ok = parseSpan(args); return ok },
	"sequential": func(args string, f *feed.Feed) (ok bool) { f.Sequential, ok = parseSpan(args); return ok },
	"zipf": func(args string, f *feed.Feed) bool {
		span, exponent, _ := strings.Cut(args, ":")
		ends, ok := parseSpan(span)
		s, err := strconv.ParseFloat(exponent, 64)
		if ok && err == nil {
			f.Zipf = &feed.Zipf{Low: ends[0], High: ends[1], Exponent: s}
		}
		return f.Zipf != nil
	},
	"csv":   func(args string, f *feed.Feed) bool { f.CSV = parseFile(args); return f.CSV.Path != "" },
	"jsonl": func(args string, f *feed.Feed) bool { f.JSONL = parseFile(args); return f.JSONL.Path != "" },
}

// parseFeed takes NAME=KIND:ARGUMENTS, and options behind commas.
func parseFeed(text string) (name string, from feed.Feed, err error) {
	name, rest, _ := strings.Cut(text, "=")
	options := strings.Split(rest, ",")
	kind, args, _ := strings.Cut(options[0], ":")
	read, ok := feedKinds[kind]
	if name == "" || !ok || !read(args, &from) {
		return "", from, usagef("--feed %q is no feed; write one such as id=uniform:1..1000, id=zipf:1..1000:0.99 or user=csv:users.csv (kinds: %s)",
			text, strings.Join(slices.Sorted(maps.Keys(feedKinds)), ", "))
	}
	file := from.CSV
	if file == nil {
		file = from.JSONL
	}
	for _, option := range options[1:] {
		switch {
		case option == "per-vu":
			from.PerVU = true
		case option == "random" && file != nil:
			file.Random = true
		default:
			return "", from, usagef("--feed %q: %q is no option of it; write per-vu, or random for a file", text, option)
		}
	}
	if err := from.Validate(); err != nil {
		return "", from, usagef("--feed %q: %w", text, err)
	}
	return name, from, nil
}

// parseSpan takes LO..HI.
func parseSpan(text string) (*[2]int64, bool) {
	low, high, _ := strings.Cut(text, "..")
	lo, errLo := strconv.ParseInt(low, 10, 64)
	hi, errHi := strconv.ParseInt(high, 10, 64)
	if errLo != nil || errHi != nil {
		return nil, false
	}
	return &[2]int64{lo, hi}, true
}

// parseFile takes FILE and FILE:COLUMN.
func parseFile(text string) *feed.File {
	path, column, _ := strings.Cut(text, ":")
	return &feed.File{Path: path, Column: column}
}

// parseForm takes NAME=VALUE, and NAME=@FILE with which the form becomes one of parts.
func parseForm(fields []string, r *load.Request) error {
	for _, text := range fields {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return usagef("--form %q is no field; write NAME=VALUE, or NAME=@FILE", text)
		}
		f := load.FormField{Name: name, Value: value}
		if path, isFile := strings.CutPrefix(value, "@"); isFile {
			f.Value, f.File = "", path
		}
		r.Multipart = append(r.Multipart, f)
	}
	if slices.ContainsFunc(r.Multipart, func(f load.FormField) bool { return f.File != "" }) || len(fields) == 0 {
		return nil
	}
	r.Form = make(map[string]string, len(fields))
	for _, f := range r.Multipart {
		if _, twice := r.Form[f.Name]; twice {
			return usagef("--form %s is given twice; write each field once, or the body with -d", f.Name)
		}
		r.Form[f.Name] = f.Value
	}
	r.Multipart = nil
	return nil
}

// parseLabel takes NAME=VALUE.
func parseLabel(text string) (name, value string, err error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return "", "", usagef("--label %q is no label; write NAME=VALUE", text)
	}
	return name, value, nil
}
