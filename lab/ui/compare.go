package ui

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"loadstone/lab/compare"
	"loadstone/lab/format"
	"loadstone/lab/result"
)

// comparePage is a difference as tables.
type comparePage struct {
	Within   bool // the variants of one run
	A, B     compare.Run
	WhenA    string
	WhenB    string
	Swapped  string // address of the comparison the other way round
	Relative bool
	Other    string // address of the comparison as measured, or relative to the baseline
	Answer   string
	Tables   []compareTable
	Settings []compare.Setting
	Source   []compare.Line
	More     int // lines that are not shown
	Warnings []string
}

type compareTable struct {
	ID, Title, Reference string
	Rows                 []compareRow
	Notes                []string
}

type compareRow struct {
	Name, Base, Sample           string
	Change, Interval, P, Reading string
	Kind                         string // of the change: better, worse or unclear
}

// compare shows what differs between two runs, the older one first as the list
// hands them over, or between the variants of one.
func (h *handler) compare(w http.ResponseWriter, r *http.Request) {
	names := r.URL.Query()["run"]
	relative := r.URL.Query().Get("relative") != ""
	if len(names) < 1 || len(names) > 2 || slices.Contains(names, "") {
		h.say(w, http.StatusBadRequest, message{Title: "Two runs are compared",
			Text: "Tick two runs in the list to see what changed between them, or one to compare its variants."})
		return
	}
	entries := make([]*entry, len(names))
	for i, n := range names {
		if entries[i] = h.index.one(n); entries[i] == nil {
			h.notFound(w, r)
			return
		}
	}
	if r.URL.Query().Get("order") == "" {
		slices.SortStableFunc(entries, func(a, b *entry) int { return a.Started.Compare(b.Started) })
	}
	d, err := h.difference(r, entries, relative)
	if err != nil {
		h.say(w, http.StatusOK, message{Title: "These cannot be compared", Text: sentence(err.Error())})
		return
	}
	h.show(w, http.StatusOK, "compare", newComparePage(d, relative))
}

// difference is the one that the command compare prints.
func (h *handler) difference(r *http.Request, entries []*entry, relative bool) (*compare.Difference, error) {
	var results []*result.Result
	for _, e := range entries {
		if e.State != whole {
			return nil, fmt.Errorf("%s is %s, and only whole runs are compared", e.Name, e.State)
		}
		res, err := h.result(r.Context(), e)
		if err != nil {
			return nil, err
		}
		results = append(results, res)
	}
	if len(results) == 1 {
		return compare.Within(results[0], entries[0].Name)
	}
	if entries[0].Name == entries[1].Name {
		return nil, errors.New("both are the same run")
	}
	return compare.Between(results[0], results[1], [2]string{entries[0].Name, entries[1].Name}, compare.Config{Relative: relative})
}

// maxSource is how many lines of a difference between experiment files are shown.
const maxSource = 200

func newComparePage(d *compare.Difference, relative bool) *comparePage {
	p := &comparePage{
		Within: d.Base == d.Sample, A: d.Base, B: d.Sample, WhenA: when(d.Base.Started), WhenB: when(d.Sample.Started), Relative: relative,
		Swapped: compareAddress(d.Sample.Name, d.Base.Name, relative), Other: compareAddress(d.Base.Name, d.Sample.Name, !relative),
		Answer: d.Headline() + ".", Settings: d.Settings, Warnings: d.Warnings,
	}
	for i := range d.Tables {
		p.Tables = append(p.Tables, newCompareTable(i, &d.Tables[i]))
	}
	if p.Within {
		p.Other = "" // its variants are compared with each other
	}
	p.Source = d.Source[:min(len(d.Source), maxSource)]
	p.More = len(d.Source) - len(p.Source)
	return p
}

// compareAddress asks for this order of the two.
func compareAddress(a, b string, relative bool) string {
	v := url.Values{"run": {a, b}, "order": {"given"}}
	if relative {
		v.Set("relative", "1")
	}
	return "/compare?" + v.Encode()
}

func newCompareTable(i int, t *compare.Table) compareTable {
	title := t.Heading()
	out := compareTable{ID: fmt.Sprintf("t%d", i), Title: format.Capital(title), Reference: t.Reference, Notes: t.AllNotes()}
	for i := range t.Rows {
		out.Rows = append(out.Rows, newCompareRow(&t.Rows[i]))
	}
	return out
}

// newCompareRow is a row in the words of the command compare.
func newCompareRow(r *compare.Row) compareRow {
	out := compareRow{Name: r.Name, Base: r.BaseText(), Sample: r.SampleText(), Kind: string(r.Change)}
	words, ok := r.Words()
	if !ok {
		out.Change, out.Interval, out.P, out.Reading = "–", "–", "–", r.Note
		return out
	}
	out.Change, out.Interval, out.Reading = words.Change, words.Interval, words.Reading
	out.P = cmp.Or(strings.TrimPrefix(words.P, "="), "–")
	return out
}
