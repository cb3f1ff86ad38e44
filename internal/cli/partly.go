package cli

import (
	"context"
	"errors"
	"fmt"
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

// mostReason bounds the reason in a report, in characters. The first line of an
// error says what went wrong; what a program said last follows on others.
const mostReason = 200

func shortened(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if utf8.RuneCountInString(text) <= mostReason {
		return text
	}
	return string([]rune(text)[:mostReason]) + "…"
}
