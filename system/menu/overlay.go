package menu

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Documents are what a Desk keeps beside the menus.
type Documents interface {
	Document(ctx context.Context, kind Kind, id int64) (Document, error)
	SetDocument(ctx context.Context, d *Document, only Condition) error
}

// FindOverlay returns a menu's availability and its tag; nil if nothing is said about it.
func FindOverlay(ctx context.Context, in Documents, id int64) (o *Overlay, tag uint64, err error) {
	d, err := in.Document(ctx, Availability, id)
	if errors.Is(err, ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	if o, err = ParseOverlay(d.Body); err != nil {
		return nil, 0, fmt.Errorf("availability of menu %d: %w: %w", id, ErrCorrupt, err)
	}
	return o, d.Tag, nil
}

// changeTries is how often one change is made anew where others change the same at a time.
const changeTries = 20

// ChangeOverlay changes a menu's availability in place, if the one there is as only says, else
// the error wraps ErrChanged. d says whose and by whom, and gets Body and Tag. A change that
// changes nothing is not stored. The error of change is returned as it is, and that of an
// availability that is too large wraps ErrInput.
func ChangeOverlay(ctx context.Context, in Documents, d *Document, only Condition, change func(*Overlay) error) error {
	d.Kind = Availability
	for range changeTries {
		o, tag, err := FindOverlay(ctx, in, d.ID)
		if err != nil {
			return err
		}
		if !only.Holds(tag, o != nil) {
			return ErrChanged
		}
		there := Condition{Tag: tag, HasTag: o != nil, Absent: o == nil}
		if o == nil {
			o = &Overlay{}
		}
		if err := change(o); err != nil {
			return err
		}
		d.Body = o.JSON()
		if d.Tag = Tag(d.Body); there.Holds(d.Tag, true) {
			return nil
		}
		if _, err := ParseOverlay(d.Body); err != nil {
			return err
		}
		if err = in.SetDocument(ctx, d, there); !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return ErrOverloaded
}

// SoldOutChange is the change for ChangeOverlay that says of one dish that it is sold out, or
// is not.
func SoldOutChange(dish SoldOut, out bool) func(*Overlay) error {
	return func(o *Overlay) error {
		o.Mark(dish, out, time.Now())
		return nil
	}
}
