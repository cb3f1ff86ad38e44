package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// element is one element of a page, with what a check needs to know of it.
type element struct {
	name    string
	attr    map[string]string
	parents []string
	text    string // its own, without that of elements inside
}

// parsePage reads a page as XML, strictly: every element closed, in order,
// every attribute quoted, every special character escaped. HTML asks for less;
// a page that passes has no markup of which anybody's name became a part.
func parsePage(t *testing.T, page string) []*element {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(page))
	var all, open []*element
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attr: map[string]string{}}
			for _, p := range open {
				e.parents = append(e.parents, p.name)
			}
			for _, a := range token.Attr {
				e.attr[a.Name.Local] = a.Value
			}
			all, open = append(all, e), append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				open[len(open)-1].text += string(token)
			}
		}
	}
	return all
}

// beside are the links that a page may have: to places on it, and to the files
// of the run, which lie in the same directory.
var beside = regexp.MustCompile(`^(#[a-z0-9-]*|data:,|result\.json|run\.json|experiment\.yaml|trials/[0-9]{3}-[A-Za-z0-9._-]+/(trial\.json|samples\.jsonl|windows\.jsonl|logs/)?)$`)

// fetched finds what leads outside without a click, and what could run.
func fetched(elements []*element) (problems []string) {
	fetches := regexp.MustCompile(`url\(|@import|expression`)
	for _, e := range elements {
		if slices.Contains([]string{"script", "iframe", "object", "embed", "img", "image", "video", "audio", "form", "base", "foreignObject"}, e.name) {
			problems = append(problems, fmt.Sprintf("got a <%s>", e.name))
		}
		for name, value := range e.attr {
			if strings.HasPrefix(name, "on") || slices.Contains([]string{"src", "srcset", "action", "style", "http-equiv"}, name) {
				problems = append(problems, fmt.Sprintf("got <%s %s=%q>", e.name, name, value))
			}
			if name == "href" && !beside.MatchString(value) {
				problems = append(problems, fmt.Sprintf("got <%s href=%q>", e.name, value))
			}
		}
		if e.name == "style" && fetches.MatchString(e.text) {
			problems = append(problems, "the style sheet fetches something")
		}
	}
	return problems
}

// dangling finds ids that occur twice, and links and labels to what is not there.
func dangling(elements []*element) (problems []string) {
	ids := map[string]bool{}
	for _, e := range elements {
		if id := e.attr["id"]; id != "" {
			if ids[id] {
				problems = append(problems, fmt.Sprintf("the id %q occurs twice", id))
			}
			ids[id] = true
		}
	}
	for _, e := range elements {
		wanted := strings.Fields(e.attr["aria-labelledby"])
		if id, ok := strings.CutPrefix(e.attr["href"], "#"); ok {
			wanted = append(wanted, id)
		}
		for _, id := range wanted {
			if !ids[id] {
				problems = append(problems, fmt.Sprintf("<%s> refers to %q, which is not on the page", e.name, id))
			}
		}
	}
	return problems
}

// unnamed finds drawings without a title and a description that are not hidden
// from screen readers (those have their number beside them), tables outside of
// all sections, and a missing first heading.
func unnamed(elements []*element) (problems []string) {
	texts := map[string]string{}
	for _, e := range elements {
		texts[e.attr["id"]] = e.name + strings.TrimSpace(e.text)
	}
	headings := 0
	for _, e := range elements {
		switch e.name {
		case "svg":
			if slices.Contains(e.parents, "svg") || e.attr["aria-hidden"] == "true" {
				continue
			}
			labels := strings.Fields(e.attr["aria-labelledby"])
			if e.attr["role"] != "img" || len(labels) != 2 ||
				len(texts[labels[0]]) <= len("title") || len(texts[labels[1]]) <= len("desc") {
				problems = append(problems, fmt.Sprintf("a drawing has no name: %v", e.attr))
			}
		case "h1":
			headings++
		case "table":
			if !slices.Contains(e.parents, "section") {
				problems = append(problems, fmt.Sprintf("a table stands outside of all sections: %v", e.parents))
			}
		}
	}
	if headings != 1 {
		problems = append(problems, fmt.Sprintf("got %d first headings, want 1", headings))
	}
	return problems
}

// headless finds sections that do not begin with a heading of their own, by
// which they are named, and headings that skip a level.
func headless(elements []*element) (problems []string) {
	level := 1
	headings := map[string]bool{}
	for _, e := range elements {
		if len(e.name) == 2 && e.name[0] == 'h' && e.name[1] >= '1' && e.name[1] <= '6' {
			next := int(e.name[1] - '0')
			if next > level+1 {
				problems = append(problems, fmt.Sprintf("<%s> %q comes after a heading of level %d", e.name, e.text, level))
			}
			level = next
			if e.attr["id"] != "" {
				headings[e.attr["id"]] = strings.TrimSpace(e.text) != ""
			}
		}
	}
	for _, e := range elements {
		if e.name == "section" && !headings[e.attr["aria-labelledby"]] {
			problems = append(problems, fmt.Sprintf("a section has no heading: %v", e.attr))
		}
	}
	return problems
}

var notNumber = regexp.MustCompile(`(?i)(^|[^a-z])[+-]?(nan|inf|infinity)([^a-z]|$)|%!|<nil>|<no value>|\be\+?\d{3}`)

// misnumbered finds texts and places that are NaN or infinite.
func misnumbered(elements []*element) (problems []string) {
	for _, e := range elements {
		if e.name != "style" && notNumber.MatchString(e.text) {
			problems = append(problems, fmt.Sprintf("<%s> holds %q", e.name, strings.TrimSpace(e.text)))
		}
		if !slices.Contains(e.parents, "svg") {
			continue
		}
		for name, value := range e.attr {
			if slices.Contains([]string{"x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "dx", "dy"}, name) {
				v, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
				if err != nil || math.IsNaN(v) || math.Abs(v) > 1e5 {
					problems = append(problems, fmt.Sprintf("<%s %s=%q> is no place", e.name, name, value))
				}
			}
			if name == "d" && !regexp.MustCompile(`^[MLHVZ0-9 .-]*$`).MatchString(value) {
				problems = append(problems, fmt.Sprintf("<%s d=%q> is no path", e.name, value))
			}
		}
	}
	return problems
}

// shown are the texts of a page, one after the other, with single blanks.
func shown(elements []*element) string {
	var b strings.Builder
	for _, e := range elements {
		b.WriteString(" " + strings.Join(strings.Fields(e.text), " ") + " ")
	}
	return b.String()
}

func wantNone(t *testing.T, problems []string) {
	t.Helper()
	for _, problem := range problems {
		t.Error(problem)
	}
}

// The checks above judge every page, so each must be able to find a fault.
func TestChecksFindFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		page  string
		check func([]*element) []string
	}{
		"a script":           {`<p><script>x</script></p>`, fetched},
		"a handler":          {`<p onclick="x">y</p>`, fetched},
		"an image":           {`<p><img src="x.png"/></p>`, fetched},
		"a link outside":     {`<a href="https://example.org/">x</a>`, fetched},
		"a link upwards":     {`<a href="../run.json">x</a>`, fetched},
		"a link to a script": {`<a href="javascript:alert(1)">x</a>`, fetched},
		"a style that loads": {`<style>p { background: url(x.png) }</style>`, fetched},
		"an id twice":        {`<p id="a"><b id="a">x</b></p>`, dangling},
		"a dead link":        {`<a href="#gone">x</a>`, dangling},
		"a nameless chart":   {`<section><h1>x</h1><svg role="img"><rect/></svg></section>`, unnamed},
		"a nameless section": {`<section><h1>x</h1></section>`, headless},
		"an empty heading":   {`<section aria-labelledby="a"><h2 id="a"> </h2></section>`, headless},
		"a skipped level":    {`<p><h1>x</h1><h3>y</h3></p>`, headless},
		"no first heading":   {`<section>x</section>`, unnamed},
		"a NaN in text":      {`<p>NaN req/s</p>`, misnumbered},
		"an Inf in text":     {`<p>up to +Inf</p>`, misnumbered},
		"a NaN in a place":   {`<svg><rect x="NaN%"/></svg>`, misnumbered},
		"no place":           {`<svg><rect x=""/></svg>`, misnumbered},
		"a broken path":      {`<svg><path d="M0 NaN"/></svg>`, misnumbered},
	} {
		if got := c.check(parsePage(t, c.page)); len(got) == 0 {
			t.Errorf("%s was not found", name)
		}
	}
}
