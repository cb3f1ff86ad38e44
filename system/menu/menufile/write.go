package menufile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// Written are the formats that Write writes.
var Written = []Format{CSV, JSONLines, PSV}

// Write writes the source in one of the formats Written; Open gives the same menus back. Progress
// may be nil.
//
// In CSV, what a spreadsheet would take for a formula has an apostrophe before it, which Open
// takes away. PSV has no place for a currency: all menus must have the same, and it is to be
// named when the file is opened, unless it is menu.DefaultCurrency.
func Write(ctx context.Context, w io.Writer, format Format, source dataset.Source[menu.Menu], progress dataset.Progress) error {
	out := bufio.NewWriterSize(w, bufferSize)
	var put func(*menu.Menu) error
	var buffer []byte
	switch format {
	case CSV:
		// It writes into out, which is buffer enough.
		put = (&csvWriter{out: csv.NewWriter(out)}).put
	case JSONLines:
		put = func(m *menu.Menu) error {
			buffer = append(m.AppendJSON(buffer[:0]), '\n')
			_, err := out.Write(buffer)
			return err
		}
	case PSV:
		currency := ""
		put = func(m *menu.Menu) error {
			if currency == "" {
				currency = m.Currency
			}
			if m.Currency != currency {
				return fmt.Errorf("%w: menu %d is in %s, others in %s, and psv has no currency: write csv or jsonl", menu.ErrInput, m.ID, m.Currency, currency)
			}
			buffer = appendPSV(buffer[:0], m)
			_, err := out.Write(buffer)
			return err
		}
	default:
		return fmt.Errorf("%w: menus cannot be written as %q: write csv, jsonl or psv", menu.ErrInput, format)
	}
	if err := dataset.Each(ctx, source, progress, put); err != nil {
		return fmt.Errorf("write menus as %s: %w", format, err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write menus as %s: %w", format, err)
	}
	return nil
}

// appendPSV appends id|dishes|link.
func appendPSV(dst []byte, m *menu.Menu) []byte {
	body := m.AppendJSON(nil)
	dst = strconv.AppendInt(dst, m.ID, 10)
	dst = append(dst, '|')
	if m.Link != "" {
		dst = append(dst, "null|"...)
		dst = append(dst, m.Link...)
		return append(dst, '\n')
	}
	// In texts, quotes have a backslash.
	dst = append(dst, body[bytes.IndexByte(body, '['):bytes.LastIndex(body, []byte(`,"link":`))]...)
	return append(dst, "|null\n"...)
}

// csvWriter writes a dish a row.
type csvWriter struct {
	out    *csv.Writer
	begun  bool
	record [columnCount]string
}

func (w *csvWriter) put(m *menu.Menu) error {
	if !w.begun {
		w.begun = true
		if err := w.out.Write(columns()); err != nil {
			return err
		}
	}
	w.record = [columnCount]string{colID: strconv.FormatInt(m.ID, 10), colLink: m.Link, colCurrency: m.Currency}
	if m.Link != "" {
		return w.out.Write(w.record[:])
	}
	for i := range m.Dishes {
		d := &m.Dishes[i]
		w.record[colType], w.record[colSubType], w.record[colDish] = escape(d.Type), escape(d.SubType), escape(d.Name)
		w.record[colPrice], w.record[colIngredients] = string(menu.AppendPrice(nil, d.Price, m.Currency)), joinIngredients(d.Ingredients)
		w.record[colPhoto] = d.Photo
		if err := w.out.Write(w.record[:]); err != nil {
			return err
		}
	}
	return nil
}
