package pagetest

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Within are the links that every page may have: to places on it.
var Within = regexp.MustCompile(`(?s)^(#.*|data:,)$`)

var fetches = regexp.MustCompile(`url\(|@import|expression`)

// Fetched finds what leads outside without a click, what could run, and links but
// those that a page may have.
func Fetched(elements []*Element, links *regexp.Regexp) (problems []string) {
	for _, e := range elements {
		if slices.Contains([]string{"script", "iframe", "object", "embed", "img", "image", "video", "audio", "form", "base", "foreignObject"}, e.Name) {
			problems = append(problems, fmt.Sprintf("got a <%s>", e.Name))
		}
		for name, value := range e.Attr {
			if strings.HasPrefix(name, "on") || slices.Contains([]string{"src", "srcset", "action", "style", "http-equiv"}, name) {
				problems = append(problems, fmt.Sprintf("got <%s %s=%q>", e.Name, name, value))
			}
			if name == "href" && !links.MatchString(value) {
				problems = append(problems, fmt.Sprintf("got <%s href=%q>", e.Name, value))
			}
		}
		if e.Name == "style" && fetches.MatchString(e.Text) {
			problems = append(problems, "the style sheet fetches something")
		}
	}
	return problems
}

// Dangling finds ids that occur twice, and links and labels to what is not there.
func Dangling(elements []*Element) (problems []string) {
	ids := map[string]bool{}
	for _, e := range elements {
		if id := e.Attr["id"]; id != "" {
			if ids[id] {
				problems = append(problems, fmt.Sprintf("the id %q occurs twice", id))
			}
			ids[id] = true
		}
	}
	for _, e := range elements {
		wanted := strings.Fields(e.Attr["aria-labelledby"])
		if id, ok := strings.CutPrefix(e.Attr["href"], "#"); ok {
			wanted = append(wanted, id)
		}
		for _, id := range wanted {
			if !ids[id] {
				problems = append(problems, fmt.Sprintf("<%s> refers to %q, which is not on the page", e.Name, id))
			}
		}
	}
	return problems
}

// Unnamed finds drawings without a title and a description that are not hidden
// from screen readers (those have their number beside them), tables outside of
// all sections, and a missing first heading.
func Unnamed(elements []*Element) (problems []string) {
	texts := map[string]string{}
	for _, e := range elements {
		texts[e.Attr["id"]] = e.Name + strings.TrimSpace(e.Text)
	}
	headings := 0
	for _, e := range elements {
		switch e.Name {
		case "svg":
			if slices.Contains(e.Parents, "svg") || e.Attr["aria-hidden"] == "true" {
				continue
			}
			labels := strings.Fields(e.Attr["aria-labelledby"])
			if e.Attr["role"] != "img" || len(labels) != 2 ||
				len(texts[labels[0]]) <= len("title") || len(texts[labels[1]]) <= len("desc") {
				problems = append(problems, fmt.Sprintf("a drawing has no name: %v", e.Attr))
			}
		case "h1":
			headings++
		case "table":
			if !slices.Contains(e.Parents, "section") {
				problems = append(problems, fmt.Sprintf("a table stands outside of all sections: %v", e.Parents))
			}
		}
	}
	if headings != 1 {
		problems = append(problems, fmt.Sprintf("got %d first headings, want 1", headings))
	}
	return problems
}

// Headless finds sections that do not begin with a heading of their own, by
// which they are named, and headings that skip a level.
func Headless(elements []*Element) (problems []string) {
	level := 1
	headings := map[string]bool{}
	for _, e := range elements {
		if len(e.Name) == 2 && e.Name[0] == 'h' && e.Name[1] >= '1' && e.Name[1] <= '6' {
			next := int(e.Name[1] - '0')
			if next > level+1 {
				problems = append(problems, fmt.Sprintf("<%s> %q comes after a heading of level %d", e.Name, e.Text, level))
			}
			level = next
			if e.Attr["id"] != "" {
				headings[e.Attr["id"]] = strings.TrimSpace(e.Text) != ""
			}
		}
	}
	for _, e := range elements {
		if e.Name == "section" && !headings[e.Attr["aria-labelledby"]] {
			problems = append(problems, fmt.Sprintf("a section has no heading: %v", e.Attr))
		}
	}
	return problems
}

// notNumber is what Go writes of numbers that are none, and of mistakes with a format.
var notNumber = regexp.MustCompile(`(?i)(^|[^a-z])[+-]?(nan|inf|infinity)([^a-z]|$)|%!|<nil>|<no value>|\be\+?\d{3}`)

// drawing is what the description of a path is made of.
var drawing = regexp.MustCompile(`^[MLHVZ0-9 .-]*$`)

// Misnumbered finds texts and places that are NaN or infinite.
func Misnumbered(elements []*Element) (problems []string) {
	for _, e := range elements {
		if e.Name != "style" && notNumber.MatchString(e.Text) {
			problems = append(problems, fmt.Sprintf("<%s> holds %q", e.Name, strings.TrimSpace(e.Text)))
		}
		if !slices.Contains(e.Parents, "svg") {
			continue
		}
		for name, value := range e.Attr {
			if slices.Contains([]string{"x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "dx", "dy"}, name) {
				v, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
				if err != nil || math.IsNaN(v) || math.Abs(v) > 1e5 {
					problems = append(problems, fmt.Sprintf("<%s %s=%q> is no place", e.Name, name, value))
				}
			}
			if name == "d" && !drawing.MatchString(value) {
				problems = append(problems, fmt.Sprintf("<%s d=%q> is no path", e.Name, value))
			}
		}
	}
	return problems
}
