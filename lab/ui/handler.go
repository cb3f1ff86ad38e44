package ui

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"loadstone/lab/chart"
	"loadstone/lab/format"
	"loadstone/lab/report"
	"loadstone/lab/result"
)

//go:embed pages.gohtml live.gohtml ui.css ui.js
var assets embed.FS

// handler answers all requests.
type handler struct {
	dir     string
	index   *index
	derive  *deriver
	pages   *template.Template
	style   []byte
	script  []byte
	began   time.Time
	viewers chan struct{} // has room for those that are live
}

// newHandler makes the handler of everything, with its guards around it.
func newHandler(c Config) (http.Handler, error) {
	h := &handler{
		dir: c.Runs, index: newIndex(c.Runs), derive: newDeriver(c.Runs), began: time.Now(),
		viewers: make(chan struct{}, maxViewers),
	}
	var err error
	// Names of directories and files may hold what means something in an address.
	functions := template.FuncMap{"escape": escapePath}
	if h.pages, err = template.New("").Funcs(functions).ParseFS(assets, "*.gohtml"); err != nil {
		return nil, fmt.Errorf("read the pages' templates: %w", err)
	}
	own, err := assets.ReadFile("ui.css")
	if err != nil {
		return nil, err
	}
	h.style = append([]byte(chart.Style), own...)
	if h.script, err = assets.ReadFile("ui.js"); err != nil {
		return nil, err
	}
	return hostCheck(c.Listen, guarded(h.routes())), nil
}

// routes has nothing that changes anything: all methods but GET and HEAD are
// refused.
func (h *handler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.list)
	mux.HandleFunc("GET /compare", h.compare)
	mux.HandleFunc("GET /runs/{name}/{$}", h.run)
	mux.HandleFunc("GET /runs/{name}/{path...}", h.raw)
	mux.HandleFunc("GET /files/{name}", h.files)
	mux.HandleFunc("GET /events/{name}", h.events)
	mux.HandleFunc("GET /style.css", func(w http.ResponseWriter, r *http.Request) { h.asset(w, r, "style.css", h.style) })
	mux.HandleFunc("GET /ui.js", func(w http.ResponseWriter, r *http.Request) { h.asset(w, r, "ui.js", h.script) })
	mux.HandleFunc("GET /", h.notFound)
	return mux
}

func (h *handler) asset(w http.ResponseWriter, r *http.Request, name string, data []byte) {
	http.ServeContent(w, r, name, h.began, bytes.NewReader(data))
}

// show renders a page whole before it sends anything of it.
func (h *handler) show(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := h.pages.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, fmt.Sprintf("the page could not be made: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a browser that is gone gets nothing
}

// escapePath writes a path as a part of an address.
func escapePath(name string) string { return (&url.URL{Path: name}).EscapedPath() }

// message is a page that says something and leads back.
type message struct {
	Title, Text string
	Run         string // whose files may help; empty if there is none
}

func (h *handler) say(w http.ResponseWriter, status int, m message) {
	h.show(w, status, "message", m)
}

func (h *handler) notFound(w http.ResponseWriter, _ *http.Request) {
	h.say(w, http.StatusNotFound, message{Title: "There is nothing here", Text: "No run and no file has this address. It may have been deleted, or the address mistyped."})
}

// run shows a run as its state allows.
func (h *handler) run(w http.ResponseWriter, r *http.Request) {
	e := h.index.one(r.PathValue("name"))
	if e == nil {
		h.notFound(w, r)
		return
	}
	switch e.State {
	case whole:
		h.report(w, r, e)
	case broken:
		h.say(w, http.StatusOK, message{Title: e.Name + " cannot be read", Text: sentence(e.Trouble), Run: e.Name})
	default:
		h.live(w, r, e)
	}
}

// report serves report.html as it lies there. Where there is none, because the
// run's was never derived, it is made from the raw data and not written.
func (h *handler) report(w http.ResponseWriter, r *http.Request, e *entry) {
	root, err := h.index.openRun(e.Name)
	if err != nil {
		h.notFound(w, r)
		return
	}
	defer root.Close() //nolint:errcheck // read only
	w.Header().Set("Content-Security-Policy", reportPolicy)
	if f, info, err := openRegular(root, reportFile); err == nil {
		defer f.Close() //nolint:errcheck // read only
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		http.ServeContent(w, r, reportFile, info.ModTime(), f)
		return
	}
	res, err := h.result(r.Context(), e)
	var b bytes.Buffer
	if err == nil {
		err = report.HTML(&b, res)
	}
	if err != nil {
		w.Header().Set("Content-Security-Policy", ourPolicy)
		h.say(w, http.StatusOK, message{Title: e.Name + " cannot be reported", Text: sentence(err.Error()), Run: e.Name})
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // a browser that is gone gets nothing
}

// deriveTimeout bounds the wait for a result, those before it included. One takes
// about a second; a run of an hour, several.
const deriveTimeout = 2 * time.Minute

func (h *handler) result(ctx context.Context, e *entry) (*result.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, deriveTimeout)
	defer cancel()
	return h.derive.result(ctx, e)
}

// runPage is the page of a run that is not whole.
type runPage struct {
	*livePage

	Entry    *entry
	Question string
	Live     bool
	Report   bool // it has one, of the trials that ended
	Details  string
	When     string
}

func (h *handler) live(w http.ResponseWriter, r *http.Request, e *entry) {
	root, err := h.index.openRun(e.Name)
	if err != nil {
		h.notFound(w, r)
		return
	}
	l, err := openLive(root)
	if err != nil {
		h.say(w, http.StatusOK, message{Title: e.Name + " cannot be read", Text: sentence(err.Error()), Run: e.Name})
		return
	}
	defer l.close() //nolint:errcheck // read only
	if err := l.refresh(); err != nil {
		h.say(w, http.StatusOK, message{Title: e.Name + " cannot be read", Text: sentence(err.Error()), Run: e.Name})
		return
	}
	p := runPage{livePage: l.page(), Entry: e, Question: l.question, Live: e.State == underWay, When: when(e.Started)}
	if !p.Live {
		p.Status, p.Details = l.whyStopped(e)
		p.Report = stampOf(l.root, reportFile).there()
		for i := range p.Trials {
			switch {
			case p.Trials[i].Current:
				p.Trials[i].State = "cut off"
			case p.Trials[i].State == toCome:
				p.Trials[i].State = "not run"
			}
		}
	}
	h.show(w, http.StatusOK, "run", p)
}

// raw serves a file of a run. Only report.html is a page; everything else is
// text, or a download.
func (h *handler) raw(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("path")
	root, err := h.index.openRun(r.PathValue("name"))
	if err != nil || !fs.ValidPath(name) {
		h.notFound(w, r)
		return
	}
	defer root.Close() //nolint:errcheck // read only
	f, info, err := openRegular(root, name)
	if err != nil {
		h.notFound(w, r)
		return
	}
	defer f.Close() //nolint:errcheck // read only
	w.Header().Set("Content-Security-Policy", reportPolicy)
	switch path.Ext(name) {
	case ".json":
		w.Header().Set("Content-Type", "application/json")
	case ".jsonl", ".yaml", ".log", ".txt", ".hlog", ".csv":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	default:
		if name == reportFile {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			break
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
	}
	http.ServeContent(w, r, name, info.ModTime(), f)
}

type filesPage struct {
	Name  string
	Files []fileRow
	Cut   bool
}

type fileRow struct{ Path, Size string }

func (h *handler) files(w http.ResponseWriter, r *http.Request) {
	root, err := h.index.openRun(r.PathValue("name"))
	if err != nil {
		h.notFound(w, r)
		return
	}
	defer root.Close() //nolint:errcheck // read only
	found, cut, err := files(root)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p := filesPage{Name: r.PathValue("name"), Cut: cut}
	for _, f := range found {
		p.Files = append(p.Files, fileRow{f.Path, size(f.Size)})
	}
	h.show(w, http.StatusOK, "files", p)
}

// size writes a number of bytes in binary units.
func size(n int64) string {
	v := float64(n)
	for _, unit := range []string{"B", "KiB", "MiB"} {
		if v < 1000 {
			return format.Setting(v) + " " + unit
		}
		v /= 1024
	}
	return format.Setting(v) + " GiB"
}

// sentence makes an error one.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	_, first := utf8.DecodeRuneInString(text)
	return strings.ToUpper(text[:first]) + strings.TrimSuffix(text[first:], ".") + "."
}

func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2 January 2006, 15:04 UTC")
}
