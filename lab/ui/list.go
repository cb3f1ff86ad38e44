package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// pageSize is how many runs a page of the list has.
const pageSize = 50

// maxHeadlines is how many variants of a run the list shows.
const maxHeadlines = 8

type listPage struct {
	Dir         string
	Filter      string
	Found, All  int
	Left        int // out of the index
	Rows        []listRow
	Page, Pages int
	Before      string // address of the page of newer runs; empty if there is none
	After       string
}

type listRow struct {
	*entry
	details

	When string
	More int // variants that are not shown
	Live bool
	Weak bool // it is not whole
}

func (h *handler) list(w http.ResponseWriter, r *http.Request) {
	all, left, err := h.index.all()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p := listPage{Dir: h.dir, Filter: r.URL.Query().Get("q"), All: len(all), Left: left}
	found := matching(all, p.Filter)
	p.Found = len(found)
	p.Pages = max(1, (len(found)+pageSize-1)/pageSize)
	p.Page, err = strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil {
		p.Page = 1
	}
	p.Page = min(max(p.Page, 1), p.Pages)
	if p.Page > 1 {
		p.Before = listAddress(p.Filter, p.Page-1)
	}
	if p.Page < p.Pages {
		p.After = listAddress(p.Filter, p.Page+1)
	}
	from := (p.Page - 1) * pageSize
	for _, e := range found[from:min(from+pageSize, len(found))] {
		row := listRow{entry: e, details: h.index.show(e), When: when(e.Started), Live: e.State == underWay, Weak: e.State != whole}
		if n := len(row.Headlines); n > maxHeadlines {
			row.Headlines, row.More = row.Headlines[:maxHeadlines], n-maxHeadlines
		}
		p.Rows = append(p.Rows, row)
	}
	h.show(w, http.StatusOK, "list", p)
}

func listAddress(filter string, page int) string {
	v := url.Values{"page": {strconv.Itoa(page)}}
	if filter != "" {
		v.Set("q", filter)
	}
	return "/?" + v.Encode()
}

// Progress says how far a run that is not whole has come.
func (r listRow) Progress() string {
	switch r.State {
	case whole:
		return ""
	case broken:
		return sentence(r.Trouble)
	default:
		return fmt.Sprintf("%d of %d trials ended", r.Ended, r.Planned)
	}
}
