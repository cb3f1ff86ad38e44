package menufile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// lineDecoder reads a menu a line.
type lineDecoder struct {
	lines    *lines
	currency string
	// parse reads a menu, which it need not validate. A mistake may have its place in bytes
	// of the line.
	parse func(line []byte, currency string) (m menu.Menu, at int64, err error)
	// header is a first line that is not a menu.
	header string
}

func (d *lineDecoder) next() (menu.Menu, int64, error) {
	line, at, err := d.lines.read()
	if err == nil && at == 0 && string(line) == d.header {
		line, at, err = d.lines.read()
	}
	if err != nil {
		return menu.Menu{}, at, err
	}
	m, within, err := d.parse(line, d.currency)
	return finish(m, at, within, err)
}

// finish validates a menu that starts at a byte, in which a mistake lies some bytes within.
func finish(m menu.Menu, at, within int64, err error) (menu.Menu, int64, error) {
	if err == nil {
		err = m.Validate()
	}
	if err != nil {
		return m, at, wrongf(at+within, "%v", err)
	}
	return m, at, nil
}

func parseJSONLine(line []byte, currency string) (menu.Menu, int64, error) {
	m, err := menu.ParseJSONIn(line, currency)
	if err == nil {
		return m, 0, nil
	}
	at, _ := explainJSON(json.Unmarshal(line, new(jsontext.Value)))
	return m, at, err
}

const psvHeader = "id|dishes|link"

// psvDish is a dish as the predecessor wrote it.
type psvDish struct {
	Type        string   `json:"dishType"`
	SubType     string   `json:"subType"`
	Name        string   `json:"dish"`
	Price       scalar   `json:"price"`
	Ingredients nameList `json:"ingredients"`
	Photo       string   `json:"photo"`
}

// parsePSV reads id|dishes|link. Bars may also stand in the texts of dishes and in the link.
func parsePSV(line []byte, currency string) (menu.Menu, int64, error) {
	m := menu.Menu{Currency: currency}
	number, rest, found := bytes.Cut(line, []byte("|"))
	id, ok := dataset.ParseID(number)
	if !found || !ok {
		return m, 0, errors.New("the line does not begin with 1 to 18 digits and a bar: write id|dishes|link")
	}
	m.ID = id
	behind := int64(len(number) + 1)
	d := jsontext.NewDecoder(bytes.NewReader(rest))
	var wire []psvDish
	if err := json.UnmarshalDecode(d, &wire, json.RejectUnknownMembers(true)); err != nil {
		at, err := explainJSON(err)
		return m, behind + at, err
	}
	for i := range wire {
		w := &wire[i]
		price, err := parseMoney(string(w.Price), currency)
		if err != nil {
			return m, behind, fmt.Errorf("dishes[%d]: %w", i, err)
		}
		m.Dishes = append(m.Dishes, menu.Dish{Type: w.Type, SubType: w.SubType, Name: w.Name, Price: price, Ingredients: w.Ingredients, Photo: w.Photo})
	}
	link, found := bytes.CutPrefix(rest[d.InputOffset():], []byte("|"))
	if !found {
		return m, behind + d.InputOffset(), errors.New("there is no bar behind the dishes: write id|dishes|link")
	}
	if string(link) != "null" {
		m.Link = string(link)
	}
	return m, 0, nil
}

// scalar is a string or a number as it is written; empty for null.
type scalar string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (s *scalar) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	switch value.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		*s = scalar(text)
		return err
	case '0':
		*s = scalar(value)
	case 'n':
		*s = ""
	default:
		return errors.New("neither a text nor a number")
	}
	return nil
}

// nameList is an array of names, or one text with commas, semicolons or bars between them.
type nameList []string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (l *nameList) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '"' {
		return json.UnmarshalDecode(d, (*[]string)(l))
	}
	var text string
	if err := json.UnmarshalDecode(d, &text); err != nil {
		return err
	}
	*l = nil
	for name := range strings.FieldsFuncSeq(text, func(char rune) bool { return strings.ContainsRune(",;|", char) }) {
		if name = strings.TrimSpace(name); name != "" {
			*l = append(*l, name)
		}
	}
	return nil
}
