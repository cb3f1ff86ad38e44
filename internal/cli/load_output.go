package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"loadstone/block/atomicfile"
	"loadstone/lab/load"
	"loadstone/lab/load/export/hdrlog"
	"loadstone/lab/load/export/remotewrite"
	"loadstone/lab/load/summary"
	"loadstone/lab/loadpage"
)

// outputs says where a load's results go, beside the terminal.
type outputs struct {
	json, html, hdr, junit, remote string
	labels, remoteHeaders          []string
	quiet                          bool
}

func (o *outputs) bind(fl *pflag.FlagSet) {
	fl.StringVar(&o.json, "json", "", "write the result as JSON to this file, - for standard output (described by docs/load.schema.json)")
	fl.StringVar(&o.html, "html", "", "write the result as a page to this file")
	fl.StringVar(&o.hdr, "hdr", "", "write an HdrHistogram log of every second to this file")
	fl.StringVar(&o.junit, "junit", "", "write thresholds and checks as JUnit XML to this file, for CI")
	fl.StringVar(&o.remote, "remote-write", "", "send metrics to this Prometheus remote-write URL while the load runs")
	fl.StringArrayVar(&o.remoteHeaders, "remote-write-header", nil, "a header for --remote-write, such as 'Authorization: Bearer …'")
	fl.StringArrayVar(&o.labels, "label", nil, "NAME=VALUE: a label for the --remote-write metrics")
	fl.BoolVarP(&o.quiet, "quiet", "q", false, "show nothing while the load runs")
}

// writer writes what outputs ask for. Its files are begun before the load, so
// that one that cannot be written is known then, and appear when they are
// whole.
type writer struct {
	outputs
	files   map[string]*atomicfile.Pending // by path
	hdrLog  *hdrlog.Writer
	remote  *remotewrite.Writer
	windows []load.Window // for the page
}

// maxPageWindows bounds what a page is drawn from: a day of seconds, about 100 MiB.
const maxPageWindows = 24 * 3600

// open begins the outputs.
func (o *outputs) open(ctx context.Context, title string) (*writer, error) {
	w := &writer{outputs: *o, files: map[string]*atomicfile.Pending{}}
	for _, path := range []string{o.json, o.html, o.hdr, o.junit} {
		if path == "" || path == "-" {
			continue
		}
		if w.files[path] != nil {
			return nil, errors.Join(usagef("%s is to be two things at once: give each output a file of its own", path), w.close(ctx))
		}
		file, err := create(path)
		if err != nil {
			return nil, errors.Join(err, w.close(ctx))
		}
		w.files[path] = file
	}
	if o.hdr == "-" || o.html == "-" || o.junit == "-" {
		return nil, errors.Join(usagef("only --json can go to standard output"), w.close(ctx))
	}
	if o.hdr != "" {
		w.hdrLog = hdrlog.New(w.files[o.hdr].File(), time.Now())
	}
	if o.remote == "" {
		return w, nil
	}
	c := remotewrite.DefaultConfig(o.remote, title)
	c.Labels, c.Header = map[string]string{}, map[string]string{}
	for _, text := range o.labels {
		name, value, err := parseLabel(text)
		if err != nil {
			return nil, errors.Join(err, w.close(ctx))
		}
		c.Labels[name] = value
	}
	for _, line := range o.remoteHeaders {
		name, value, _ := strings.Cut(line, ":")
		c.Header[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	var err error
	if w.remote, err = remotewrite.New(c); err != nil { //nolint:contextcheck // it lives until close, whatever becomes of the command
		return nil, errors.Join(usageError{fmt.Errorf("--remote-write: %w", err)}, w.close(ctx))
	}
	return w, nil
}

// create begins a file that a user named.
func create(path string) (*atomicfile.Pending, error) {
	file, err := atomicfile.CreateShared(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("there is no directory %s to write %s into; make it, or write another path", filepath.Dir(path), filepath.Base(path))
	}
	if err != nil {
		return nil, usageError{err}
	}
	return file, nil
}

// add takes a window.
func (w *writer) add(window load.Window) error {
	if w.remote != nil {
		w.remote.Add(window)
	}
	if w.html != "" && len(w.windows) < maxPageWindows {
		w.windows = append(w.windows, window)
	}
	if w.hdrLog != nil {
		return w.hdrLog.Add(window)
	}
	return nil
}

// finish writes what is known at the end, and prints the summary.
func (w *writer) finish(a *app, s *summary.Summary) error {
	if w.json == "-" {
		if err := s.WriteJSON(a.Stdout); err != nil {
			return err
		}
	} else {
		if err := s.Text(a.Stdout, summary.Style{Color: a.Color, Width: max(a.Width, summary.DefaultStyle().Width)}); err != nil {
			return err
		}
	}
	if err := w.fill(w.json, s.WriteJSON); err != nil {
		return err
	}
	if err := w.fill(w.html, func(to io.Writer) error { return loadpage.HTML(to, s, w.windows) }); err != nil {
		return err
	}
	if err := w.fill(w.junit, s.WriteJUnit); err != nil {
		return err
	}
	for path, file := range w.files {
		delete(w.files, path)
		if err := file.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// fill has the file at path written, if there is one.
func (w *writer) fill(path string, write func(io.Writer) error) error {
	file := w.files[path]
	if file == nil {
		return nil
	}
	return write(file.File())
}

// remoteEnd is how long the last metrics have to be sent: a second is a few
// round trips, and a person is waiting.
const remoteEnd = 5 * time.Second

// close gives up what was not finished.
func (w *writer) close(ctx context.Context) error {
	var errs []error
	for _, file := range w.files {
		errs = append(errs, file.Discard())
	}
	if w.remote != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), remoteEnd)
		defer cancel()
		errs = append(errs, w.remote.Close(ctx))
	}
	return errors.Join(errs...)
}
