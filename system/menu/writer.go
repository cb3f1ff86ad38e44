package menu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

const (
	// WriteTimeout bounds a write, from before Changing to its answer by the database: longer
	// than a database's own limits, which say more about what is wrong, and as long as
	// somebody who saved a menu may be kept.
	WriteTimeout = 5 * time.Second
	// tellTimeout bounds what follows a write, for which the writer waits: an answer from a
	// cache nearby takes milliseconds.
	tellTimeout = time.Second
)

// Writer changes menus as Database does, and tells caches. All who write use one: a cache
// that is not told goes on serving the old menu.
//
// Writes fail closed: if Changing fails nothing is written, and the error wraps ErrUntold.
// Changing must therefore make a cache let go of what it holds and refuse late fills until
// Changed comes, or, as that can fail and so can this process, for longer than WriteTimeout.
type Writer struct {
	Database Database
	// Changing is called before each write; if it fails nothing is written. id is 0 for a
	// new menu whose id the database will choose. Nil if there is no cache to tell.
	Changing func(ctx context.Context, id int64) error
	// Changed is called after each write that took place, with the new page, or, if the menu
	// was deleted, one that has its Version alone. It may be called out of order: the
	// higher Version is the later one. If it fails, the write stands. It is not called when
	// a write did not take place, or nobody knows whether it did. The page is valid during
	// the call. Nil if there is no cache to tell.
	Changed func(ctx context.Context, id int64, page Page, deleted bool) error
	// Unchanged is called in its place after a write that certainly did not take place, under
	// the same rules. Nil if nobody wants to know.
	Unchanged func(ctx context.Context, id int64) error
	// Untold hears of the failures of these three: before a write, which was not made
	// then, or after one. Nil if nobody wants to know.
	Untold func(id int64, before bool, err error)
}

// Create is Database.Create.
func (w *Writer) Create(ctx context.Context, m *Menu) (page Page, err error) {
	err = w.change(ctx, m.ID, func(within context.Context) error {
		page, err = w.Database.Create(within, m)
		return err
	})
	if err == nil {
		w.changed(ctx, m.ID, page, false)
	}
	return page, err
}

// Replace is Database.Replace.
func (w *Writer) Replace(ctx context.Context, m *Menu, only Condition) (page Page, created bool, err error) {
	err = w.change(ctx, m.ID, func(within context.Context) error {
		page, created, err = w.Database.Replace(within, m, only)
		return err
	})
	if err == nil {
		w.changed(ctx, m.ID, page, false)
	}
	return page, created, err
}

// Delete is Database.Delete.
func (w *Writer) Delete(ctx context.Context, id int64, only Condition) (version int64, err error) {
	err = w.change(ctx, id, func(within context.Context) error {
		version, err = w.Database.Delete(within, id, only)
		return err
	})
	if err == nil {
		w.changed(ctx, id, Page{Version: version}, true)
	}
	return version, err
}

// change has caches let go of a menu, and writes.
func (w *Writer) change(ctx context.Context, id int64, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	if w.Changing != nil {
		if err := w.Changing(ctx, id); err != nil {
			w.untold(id, true, err)
			return fmt.Errorf("%w: %w", ErrUntold, err)
		}
	}
	err := write(ctx)
	if refused(err) && w.Unchanged != nil {
		w.after(ctx, id, func(within context.Context) error { return w.Unchanged(within, id) })
	}
	return err
}

// refused reports whether a database's error says that nothing was written.
func refused(err error) bool {
	return errors.Is(err, ErrChanged) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrExists) ||
		errors.Is(err, ErrOverloaded) || errors.Is(err, ErrBounds)
}

func (w *Writer) changed(ctx context.Context, id int64, page Page, deleted bool) {
	defer runtime.KeepAlive(page.Owner)
	if w.Changed != nil {
		w.after(ctx, id, func(within context.Context) error { return w.Changed(within, id, page, deleted) })
	}
}

// after tells caches what came of a write, also when the writer's deadline has been used up.
func (w *Writer) after(ctx context.Context, id int64, tell func(context.Context) error) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
	defer cancel()
	if err := tell(within); err != nil {
		w.untold(id, false, err)
	}
}

func (w *Writer) untold(id int64, before bool, err error) {
	if w.Untold != nil {
		w.Untold(id, before, err)
	}
}
