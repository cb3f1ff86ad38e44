package term

import "strings"

// Cell is one field of a table. Its style is applied after padding, so that
// colour codes do not count as columns.
type Cell struct {
	Text  string
	Style Style
}

// Cell is text in the style.
func (s Style) Cell(text string) Cell { return Cell{text, s} }

// Cells are texts in the style.
func (s Style) Cells(texts ...string) []Cell {
	row := make([]Cell, len(texts))
	for i, text := range texts {
		row[i] = s.Cell(text)
	}
	return row
}

// Column says how the cells of one column stand.
type Column struct {
	Right bool
	Gap   int // blanks before it
}

// Columned are columns with two blanks between them, after an indent. align has
// a letter for each: l or r.
func Columned(indent int, align string) []Column {
	columns := make([]Column, len(align))
	for i, letter := range align {
		columns[i] = Column{Gap: 2, Right: letter == 'r'}
	}
	columns[0].Gap = indent
	return columns
}

// Table is rows of cells that are aligned by columns and not by bytes.
type Table struct {
	Columns []Column
	rows    [][]Cell
}

// NewTable returns a table of columns as Columned makes them, with a head for each.
func NewTable(indent int, align string, heads ...string) *Table {
	t := &Table{Columns: Columned(indent, align)}
	t.AddTexts(heads...)
	return t
}

// AddTexts adds a row without styles.
func (t *Table) AddTexts(texts ...string) { t.Add(Plain.Cells(texts...)...) }

// Add adds a row with a cell for each column.
func (t *Table) Add(row ...Cell) { t.rows = append(t.rows, row) }

func (t *Table) widths() []int {
	widths := make([]int, len(t.Columns))
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], Columns(c.Text))
		}
	}
	return widths
}

// Width is the number of columns that the widest row takes.
func (t *Table) Width() int {
	total := 0
	for i, w := range t.widths() {
		if w > 0 {
			total += t.Columns[i].Gap + w
		}
	}
	return total
}

// Lines returns the rows. A column without any text takes no room, and no line
// ends in a blank.
func (t *Table) Lines(color bool) []string {
	widths := t.widths()
	lines := make([]string, 0, len(t.rows))
	for _, row := range t.rows {
		var b strings.Builder
		blanks := 0
		for i, c := range row {
			if widths[i] == 0 {
				continue
			}
			blanks += t.Columns[i].Gap
			pad := widths[i] - Columns(c.Text)
			if t.Columns[i].Right {
				blanks, pad = blanks+pad, 0
			}
			if c.Text != "" { // blanks are written late, so that no line ends in them
				b.WriteString(strings.Repeat(" ", blanks) + c.Style.Paint(c.Text, color))
				blanks = 0
			}
			blanks += pad
		}
		lines = append(lines, b.String())
	}
	return lines
}

// Text is the lines, each with its end.
func (t *Table) Text(color bool) string {
	var b strings.Builder
	for _, line := range t.Lines(color) {
		b.WriteString(line + "\n")
	}
	return b.String()
}
