package menufile

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// The columns of CSV, in the order in which Write writes them. A file may have them in any
// other.
const (
	colID = iota
	colType
	colSubType
	colDish
	colPrice
	colIngredients // from here on, a file may leave them out
	colLink
	colCurrency
	colPhoto
	columnCount
)

const columnNames = "id,dishType,subType,dish,price,ingredients,link,currency,photo"

func columns() []string { return strings.Split(columnNames, ",") }

// layout says at which position of a row each column is; -1 where it is not there.
type layout struct {
	at    [columnCount]int
	width int
}

// csvDecoder reads rows and collects those that follow each other under one id. Every line
// is a row: no field of a menu has a line break.
type csvDecoder struct {
	lines    *lines
	feed     bytes.Reader
	csv      *csv.Reader
	layout   *layout
	currency string
	group    csvMenu // what was read of a menu
	ahead    *csvRow // the first of the next one
}

func newCSVDecoder(lines *lines, layout *layout, currency string) *csvDecoder {
	d := &csvDecoder{lines: lines, layout: layout, currency: currency}
	d.csv = csv.NewReader(&d.feed)
	d.csv.ReuseRecord = true
	d.csv.FieldsPerRecord = -1 // counted here, for a better message
	return d
}

// fields returns the fields of the next row and where it starts.
func (d *csvDecoder) fields() ([]string, int64, error) {
	line, at, err := d.lines.read()
	if err != nil {
		return nil, at, err
	}
	d.feed.Reset(line)
	fields, err := d.csv.Read()
	if syntax, ok := errors.AsType[*csv.ParseError](err); ok {
		err = wrongf(at+int64(syntax.Column)-1, `the quotes are wrong: put a field that has any in quotes, write "" for each inside, and no line breaks`)
	}
	return fields, at, err
}

// readHeader reads the first line. Its error lists everything that is wrong with it.
func (d *csvDecoder) readHeader() error {
	header, at, err := d.fields()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(header) > 2*columnCount {
		return wrongf(at, "the header has %d columns: write %s, and one row per line", len(header), columnNames)
	}
	for _, other := range []string{";", "\t"} {
		if len(header) == 1 && strings.Contains(header[0], other) {
			return wrongf(at, "the columns are separated by %q: save the file with commas between them", other)
		}
	}
	problems, names := &menuError{}, columns()
	d.layout = &layout{width: len(header)}
	for i, name := range names {
		if d.layout.at[i] = slices.Index(header, name); d.layout.at[i] < 0 && i < colIngredients {
			problems.addf(at, "column %s is missing: write a header of %s, of which the last four may be left out", name, columnNames)
		}
	}
	for i, name := range header {
		if !slices.Contains(names, name) || slices.Index(header, name) < i {
			problems.addf(at, "column %.40q is unknown or there twice: delete it, or write one of %s", name, columnNames)
		}
	}
	return problems.orNil()
}

// csvRow is a row; starts are the bytes where its cells are.
type csvRow struct {
	at, id int64
	cells  [columnCount]string
	starts [columnCount]int64
}

// row returns the next row, io.EOF, or a *menuError.
func (d *csvDecoder) row() (*csvRow, error) {
	fields, at, err := d.fields()
	if err != nil {
		return nil, err
	}
	if len(fields) != d.layout.width {
		return nil, wrongf(at, "the row has %d fields, the header %d: look for a comma too few or too many, and put text with commas in quotes", len(fields), d.layout.width)
	}
	r := &csvRow{at: at}
	for column, i := range d.layout.at {
		if i >= 0 {
			_, start := d.csv.FieldPos(i)
			r.cells[column], r.starts[column] = fields[i], at+int64(start)-1
		}
	}
	var ok bool
	if r.id, ok = dataset.ParseID(r.cells[colID]); !ok {
		return nil, wrongf(r.starts[colID], "id is %.40q: write 1 to 18 digits without sign, spaces or leading zeros", r.cells[colID])
	}
	return r, nil
}

// next returns a bad row at once, as its menu may go on for any number of them.
func (d *csvDecoder) next() (menu.Menu, int64, error) {
	for {
		row := d.ahead
		if d.ahead = nil; row == nil {
			var err error
			if row, err = d.row(); errors.Is(err, io.EOF) && d.group.rows > 0 {
				break
			}
			if err != nil {
				return menu.Menu{}, 0, err
			}
		}
		if d.group.rows > 0 && row.id != d.group.menu.ID {
			d.ahead = row
			break
		}
		d.group.put(row, d.currency)
	}
	group := d.group
	d.group = csvMenu{}
	return group.finish()
}

// csvMenu is the rows of one menu.
type csvMenu struct {
	menu  menu.Menu
	rows  int
	at    int64   // of the first row
	ats   []int64 // of the dishes' rows
	wrong menuError
}

func (g *csvMenu) put(row *csvRow, currency string) {
	cells := &row.cells
	if g.rows++; g.rows == 1 {
		g.at, g.menu = row.at, menu.Menu{ID: row.id, Currency: cmp.Or(cells[colCurrency], currency)}
	}
	switch link := cells[colLink]; {
	case g.rows == menu.MaxDishes+1:
		g.wrong.addf(row.at, "the menu has more than %d rows: write at most as many dishes", menu.MaxDishes)
	case g.rows > menu.MaxDishes:
	case cells[colCurrency] != "" && cells[colCurrency] != g.menu.Currency:
		g.wrong.addf(row.starts[colCurrency], "currency is %.40q, and %.40q in the menu's first row: write one for the whole menu", cells[colCurrency], g.menu.Currency)
	case link == "":
		price, err := parseMoney(cells[colPrice], g.menu.Currency)
		if err != nil {
			g.wrong.addf(row.starts[colPrice], "%v", err)
		}
		g.ats = append(g.ats, row.at)
		g.menu.Dishes = append(g.menu.Dishes, menu.Dish{
			Type: unescape(cells[colType]), SubType: unescape(cells[colSubType]), Name: unescape(cells[colDish]),
			Price: price, Ingredients: splitIngredients(cells[colIngredients]), Photo: cells[colPhoto],
		})
	case g.rows > 1 || strings.Join(cells[colType:colLink], "")+cells[colPhoto] != "":
		g.wrong.addf(row.starts[colLink], "there is a dish, or another row, beside a link: write either dishes, or one row with a link alone")
	default:
		g.menu.Link = link
	}
}

// finish validates the menu, and says of a dish on which row it is wrong.
func (g *csvMenu) finish() (menu.Menu, int64, error) {
	if len(g.wrong.list) > 0 || g.menu.Validate() == nil {
		return g.menu, g.at, g.wrong.orNil()
	}
	for i, at := range g.ats {
		one := menu.Menu{ID: g.menu.ID, Currency: menu.DefaultCurrency, Dishes: g.menu.Dishes[i : i+1]}
		if err := one.Validate(); err != nil {
			g.wrong.addf(at, "%s", strings.ReplaceAll(err.Error(), "dishes[0]: ", ""))
		}
	}
	if len(g.wrong.list) == 0 {
		g.wrong.addf(g.at, "%v", g.menu.Validate())
	}
	return g.menu, g.at, g.wrong.orNil()
}

// Spreadsheets take a cell that begins with one of these for a formula.
const formula = "=+-@\t＝＋－＠"

// escape puts an apostrophe before what begins like a formula, also behind apostrophes that
// are there already, so that unescape gives every text back.
func escape(cell string) string {
	first, size := utf8.DecodeRuneInString(strings.TrimLeft(cell, "'"))
	if size > 0 && strings.ContainsRune(formula, first) {
		return "'" + cell
	}
	return cell
}

// unescape takes the apostrophe of escape away.
func unescape(cell string) string {
	if escape(cell) != cell {
		return strings.TrimPrefix(cell, "'")
	}
	return cell
}

// joinIngredients writes ingredients into one cell, each escaped as a cell of its own: some
// spreadsheets split at semicolons.
func joinIngredients(list []string) string {
	var cell []byte
	for i, ingredient := range list {
		if i > 0 {
			cell = append(cell, ';')
		}
		for _, char := range []byte(escape(ingredient)) {
			if strings.IndexByte(separators, char) >= 0 {
				cell = append(cell, '\\')
			}
			cell = append(cell, char)
		}
	}
	return string(cell)
}

// separators and what makes them part of a name.
const separators = `;|\`

// splitIngredients is the inverse of joinIngredients. A backslash before another character
// stands for itself.
func splitIngredients(cell string) []string {
	var list []string
	var one []byte
	for i := 0; i < len(cell); i++ {
		switch {
		case cell[i] == '\\' && i+1 < len(cell) && strings.IndexByte(separators, cell[i+1]) >= 0:
			i++
			one = append(one, cell[i])
		case cell[i] == ';' || cell[i] == '|':
			list, one = append(list, unescape(strings.TrimSpace(string(one)))), one[:0]
		default:
			one = append(one, cell[i])
		}
	}
	if cell != "" {
		list = append(list, unescape(strings.TrimSpace(string(one))))
	}
	return list
}

// parseMoney reads a price, with or without the dollar sign that the predecessor wrote.
func parseMoney(amount, currency string) (int64, error) {
	return menu.ParsePrice(strings.TrimPrefix(strings.TrimSpace(amount), "$"), currency)
}
