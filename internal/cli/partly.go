package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"loadstone/lab/archive"
)

// partialError is the failure of a run, with what is left of it.
type partialError struct {
	error

	left string // a sentence
}

func (e partialError) Error() string { return e.error.Error() + "\n" + e.left }
func (e partialError) Unwrap() error { return e.error }

// partly keeps why the run in dir ended with err before it was done, and reports on
// the trials that had ended. It stays a failure: the run did not do what was asked.
func (a *app) partly(ctx context.Context, dir string, err error) error {
	if dir == "" {
		return err // it had not begun
	}
	why := "the run was stopped"
	if ctx.Err() == nil {
		why = "the run failed: " + shortened(err.Error())
	}
	if stopErr := archive.Stop(dir, why, time.Now()); stopErr != nil {
		return partialError{errors.Join(err, stopErr), "the completed trials are in " + dir + ", without a report"}
	}
	res, reportErr := a.writeReport(dir)
	if _, none := errors.AsType[*archive.IncompleteError](reportErr); none {
		return partialError{err, "no trial was completed, so there is no report; the raw data is in " + dir}
	}
	if reportErr != nil {
		return partialError{err, fmt.Sprintf("the completed trials are in %s, but the report failed: %v", dir, reportErr)}
	}
	return partialError{err, fmt.Sprintf("the report is partial: %s; it is in %s", res.Partial, dir)}
}

// mostReason bounds the reason in a report, and mostDetails what follows it on lines of its
// own, in characters. The first line of an error says what went wrong; what a program said
// last follows.
const (
	mostReason  = 400
	mostDetails = 8000
)

// logFollows is the end of a first line that announces the last lines of a log.
var logFollows = regexp.MustCompile(`; its last lines \(of ([^()]*)\):$`)

// shortened is the text of an error for a report: a line that is a sentence without the
// others, and the others below it.
func shortened(text string) string {
	first, rest, _ := strings.Cut(text, "\n")
	first = logFollows.ReplaceAllString(first, "; its last lines are in $1")
	if utf8.RuneCountInString(first) > mostReason {
		cut := string([]rune(first)[:mostReason])
		if space := strings.LastIndexByte(cut, ' '); space > 0 {
			cut = cut[:space]
		}
		rest = first + "\n" + rest
		first = cut + "…"
	}
	if rest = strings.TrimRight(rest, "\n"); rest == "" {
		return first
	}
	if n := utf8.RuneCountInString(rest); n > mostDetails {
		rest = "…" + string([]rune(rest)[n-mostDetails:])
	}
	return first + "\n" + rest
}
