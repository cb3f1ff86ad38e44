package web

import (
	"bytes"
	_ "embed" // for the template and the style sheet
	"errors"
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
	"loadstone/system/results"
)

//go:embed page.gohtml
var pageSource string

//go:embed page.css
var pageStyle string

const subjects = results.SubjectsPerStream

// page is one of the pages that there are.
type page uint8

const (
	pageForm page = iota
	pageBadID
	pageBadCode
	pageUnknown
	pageEmbargo
	pageBusy
	pageBusyWait
	pageLimited
	pageLimitedWait
	pageDown
	pageAbsent
	pageMethod
	pageUnreadable
	pageResult // the first of eight, see resultPage
)

const pageCount = pageResult + 8

// resultPage is the page of a result: everything in it that is one of two is
// decided when the pages are made.
func resultPage(stream results.Stream, passed, saved bool) page {
	p := pageResult
	if stream == results.Social {
		p += 4
	}
	if passed {
		p += 2
	}
	if saved {
		p++
	}
	return p
}

// design says how a page is made. The fields are the template's.
type design struct {
	name   string // in metrics
	status int

	Kind    string // form, notice or result
	Problem string // form: the key of what is wrong
	BadID   bool   // form: the problem is with the id
	BadCode bool   // form: the problem is with the code

	key     string // notice: the keys' first part
	Embargo bool   // notice: says when results are published
	Wait    string // notice: the key of when to try again
	Again   bool   // notice: invites to try again
	Reloads bool   // asks the browser to load Target after a while
	Target  string

	Stream results.Stream // result
	Passed bool           // result
	Saved  bool           // result: will be looked at as a file

	// Switch: the page offers other languages. One that cannot be had again
	// by its address does not.
	Switch bool
}

const (
	itself   = "wait.itself"
	yourself = "wait.yourself"
)

// designs are all pages.
var designs = func() (d [pageCount]design) {
	d[pageForm] = design{name: "form", status: fasthttp.StatusOK, Kind: "form"}
	d[pageBadID] = design{name: "bad_id", status: fasthttp.StatusBadRequest, Kind: "form", Problem: "problem.id", BadID: true}
	d[pageBadCode] = design{name: "bad_code", status: fasthttp.StatusBadRequest, Kind: "form", Problem: "problem.code", BadCode: true}
	d[pageUnknown] = design{name: "unknown", status: fasthttp.StatusNotFound, Kind: "form", Problem: "problem.unknown", BadID: true, BadCode: true}
	// Understood and refused, for now. 503 would make a balancer take the
	// replica for a broken one, and ask the next.
	d[pageEmbargo] = design{name: "embargo", status: fasthttp.StatusForbidden, key: "embargo", Embargo: true, Reloads: true, Target: formPath}
	d[pageBusy] = design{name: "busy", status: fasthttp.StatusServiceUnavailable, key: "busy", Wait: yourself, Again: true}
	d[pageBusyWait] = design{name: "busy_wait", status: fasthttp.StatusServiceUnavailable, key: "busy", Wait: itself, Reloads: true, Target: waitPath}
	d[pageLimited] = design{name: "limited", status: fasthttp.StatusTooManyRequests, key: "limited", Wait: yourself, Again: true}
	d[pageLimitedWait] = design{name: "limited_wait", status: fasthttp.StatusTooManyRequests, key: "limited", Wait: itself, Reloads: true, Target: waitPath}
	d[pageDown] = design{name: "down", status: fasthttp.StatusServiceUnavailable, key: "down", Again: true}
	d[pageAbsent] = design{name: "absent", status: fasthttp.StatusNotFound, key: "absent"}
	d[pageMethod] = design{name: "method", status: fasthttp.StatusMethodNotAllowed, key: "method"}
	d[pageUnreadable] = design{name: "unreadable", status: fasthttp.StatusBadRequest, key: "unreadable"}
	for _, stream := range []results.Stream{results.Natural, results.Social} {
		for _, passed := range []bool{false, true} {
			for _, saved := range []bool{false, true} {
				d[resultPage(stream, passed, saved)] = design{
					name: "result", status: fasthttp.StatusOK, Kind: "result",
					Stream: stream, Passed: passed, Saved: saved,
				}
			}
		}
	}
	for i := range d {
		d[i].Switch = d[i].Kind != "result" && d[i].Target != waitPath
		if d[i].Kind == "" {
			d[i].Kind = "notice"
		}
	}
	return d
}()

// edition is all pages in one language.
type edition struct {
	phrases
	code   string
	sheets [pageCount]*sheet
}

// view is what the template is given.
type view struct {
	Language  string
	Languages []languageName
	Style     template.CSS
	Design    *design
	MaxMark   string
	MaxTotal  string

	texts *catalogue
}

type languageName struct{ Code, Name string }

// Text is catalogue.text.
func (v view) Text(key string, pairs ...string) (string, error) { return v.texts.text(key, pairs...) }

// Hole leaves a place for the request.
func (v view) Hole(name string) (string, error) {
	_, err := holeNamed(name)
	return holeEdge + name + holeEdge, err
}

// Heading is the key of a notice's heading.
func (v view) Heading() string { return v.Design.key + ".heading" }

// Body is the key of a notice's text.
func (v view) Body() string { return v.Design.key + ".text" }

// Stream is the key of the stream's name.
func (v view) Stream() string { return "result." + v.Design.Stream.String() }

type subjectRow struct{ Key, Mark string }

// Subjects lists the stream's subjects with the names of their marks' holes.
func (v view) Subjects() (rows []subjectRow) {
	for i, subject := range v.Design.Stream.Subjects() {
		rows = append(rows, subjectRow{"subject." + subject.String(), "mark" + strconv.Itoa(i)})
	}
	return rows
}

// printEditions makes all pages in all languages. It fails if a text is missing, has
// other placeholders than its page, or is shown nowhere.
func printEditions() ([len(languageCodes)]*edition, error) {
	var editions [len(languageCodes)]*edition
	layout, err := template.New("page").Parse(pageSource)
	if err != nil {
		return editions, fmt.Errorf("read the template: %w", err)
	}
	var texts [len(languageCodes)]*catalogue
	names := make([]languageName, len(languageCodes))
	for i, code := range languageCodes {
		if texts[i], err = loadCatalogue(code); err != nil {
			return editions, err
		}
		name, err := texts[i].text("language")
		if err != nil {
			return editions, err
		}
		names[i] = languageName{code, name}
	}
	for i, code := range languageCodes {
		v := view{
			Language: code, Languages: names, texts: texts[i],
			Style:   template.CSS(strings.TrimSpace(pageStyle)), //nolint:gosec // our own file
			MaxMark: strconv.Itoa(results.MaxMark), MaxTotal: strconv.Itoa(results.MaxTotal),
		}
		if editions[i], err = printEdition(layout, v); err != nil {
			return editions, err
		}
		if unused := texts[i].unused(); len(unused) > 0 {
			return editions, fmt.Errorf("language %q: no page shows %q", code, unused)
		}
	}
	return editions, nil
}

func printEdition(layout *template.Template, v view) (*edition, error) {
	e := &edition{code: v.Language}
	var err error
	if e.phrases, err = newPhrases(v.texts); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for p := range designs {
		v.Design = &designs[p]
		b.Reset()
		if err := layout.Execute(&b, v); err != nil {
			return nil, fmt.Errorf("make page %s: %w", v.Design.name, err)
		}
		if e.sheets[p], err = newSheet(b.String()); err != nil {
			return nil, fmt.Errorf("make page %s: %w", v.Design.name, err)
		}
	}
	return e, nil
}

// styleHash returns the source for style-src that allows a page's one style
// element, and nothing else.
func styleHash(s *sheet) (string, error) {
	_, rest, _ := strings.Cut(strings.Join(s.parts, ""), "<style>")
	style, _, ok := strings.Cut(rest, "</style>")
	if !ok {
		return "", errors.New("a page has no style")
	}
	return route.Source(style), nil
}
