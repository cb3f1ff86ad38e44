package menufile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// bounded ends behind its limit, so that a value without end takes no more memory than that.
type bounded struct {
	io.Reader
	read, limit int64 // bytes
	cut         bool  // more was asked for
}

func (r *bounded) Read(b []byte) (int, error) {
	left := r.limit - r.read
	if left <= 0 {
		r.cut = true
		return 0, io.EOF
	}
	n, err := r.Reader.Read(b[:min(int64(len(b)), left)])
	r.read += int64(n)
	return n, err
}

// schemaDecoder reads values of JSON, at the top or in arrays there.
type schemaDecoder struct {
	in       *bounded
	json     *jsontext.Decoder
	start    int64
	currency string
	ended    bool
}

func newSchemaDecoder(content io.Reader, at int64, currency string) *schemaDecoder {
	in := &bounded{Reader: content}
	return &schemaDecoder{in: in, json: jsontext.NewDecoder(in), start: at, currency: currency}
}

func (d *schemaDecoder) next() (menu.Menu, int64, error) {
	value, at, err := d.value()
	if err != nil {
		return menu.Menu{}, at, err
	}
	var wire schemaMenu
	if err := json.Unmarshal(value, &wire); err != nil {
		within, err := explainJSON(err)
		return menu.Menu{}, at, wrongf(at+within, "%v", err)
	}
	m, err := wire.menu(d.currency)
	return finish(m, at, 0, err)
}

// value returns the next document and where it starts. Behind broken JSON nothing can be
// told apart, so reading ends.
func (d *schemaDecoder) value() (jsontext.Value, int64, error) {
	if d.ended {
		return nil, 0, io.EOF
	}
	for {
		d.in.limit = d.json.InputOffset() + MaxMenuBytes + bufferSize
		if kind := d.json.PeekKind(); kind != ']' && (kind != '[' || d.json.StackDepth() > 0) {
			break
		}
		if _, err := d.json.ReadToken(); err != nil {
			return nil, 0, d.end(err)
		}
	}
	value, err := d.json.ReadValue()
	if err != nil {
		return nil, 0, d.end(err)
	}
	return value, d.start + d.json.InputOffset() - int64(len(value)), nil
}

func (d *schemaDecoder) end(err error) error {
	d.ended = true
	at := d.start + d.json.InputOffset()
	if d.in.cut {
		return wrongf(at, "the document has more than %d bytes: write one Menu in it, and an array or one after the other for several", MaxMenuBytes)
	}
	_, syntax := errors.AsType[*jsontext.SyntacticError](err)
	if !syntax || errors.Is(err, io.EOF) {
		return err
	}
	where, err := explainJSON(err)
	return wrongf(d.start+where, "%v; what follows was not read", err)
}

// many is one value or an array of them.
type many[T any] []T

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (m *many[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if kind := d.PeekKind(); kind == '[' || kind == 'n' {
		return json.UnmarshalDecode(d, (*[]T)(m))
	}
	*m = make([]T, 1)
	return json.UnmarshalDecode(d, &(*m)[0])
}

// schemaMenu is a Menu of schema.org, as far as it is read.
type schemaMenu struct {
	Type       many[string] `json:"@type"`
	Address    scalar       `json:"@id"`
	Identifier scalar       `json:"identifier"`
	URL        scalar       `json:"url"`
	schemaSection
}

type schemaSection struct {
	Name     scalar              `json:"name"`
	Sections many[schemaSection] `json:"hasMenuSection"`
	Items    many[schemaItem]    `json:"hasMenuItem"`
}

type schemaItem struct {
	Name        scalar            `json:"name"`
	Offers      many[schemaOffer] `json:"offers"`
	Ingredients nameList          `json:"recipeIngredient"`
	Images      many[schemaImage] `json:"image"`
}

// schemaImage is the address of a picture, or an ImageObject that has it.
type schemaImage string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (s *schemaImage) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '{' {
		return json.UnmarshalDecode(d, (*scalar)(s))
	}
	var object struct {
		Content scalar `json:"contentUrl"`
		URL     scalar `json:"url"`
	}
	err := json.UnmarshalDecode(d, &object)
	*s = schemaImage(cmp.Or(object.Content, object.URL))
	return err
}

type schemaOffer struct {
	Price    scalar `json:"price"`
	Currency scalar `json:"priceCurrency"`
}

// menu translates. The id is the digits at the end of identifier, or else of @id; a Menu
// without items is a link to its url.
func (s *schemaMenu) menu(currency string) (menu.Menu, error) {
	m := menu.Menu{}
	if !slices.ContainsFunc(s.Type, func(kind string) bool { return kind[strings.LastIndexAny(kind, "/:")+1:] == "Menu" }) {
		return m, fmt.Errorf("@type is %.40q: write Menu, or name the format if this is not of schema.org", strings.Join(s.Type, " "))
	}
	name := string(cmp.Or(s.Identifier, s.Address))
	digits := name[len(strings.TrimRight(name, "0123456789")):]
	id, ok := dataset.ParseID(digits)
	if !ok {
		return m, fmt.Errorf("identifier or @id is %.80q: write one that ends in the restaurant's id, 1 to 18 digits without leading zeros, such as https://example.com/menus/12", name)
	}
	m.ID = id
	if err := s.addTo(&m, currency, nil); err != nil {
		return m, err
	}
	m.Currency = cmp.Or(m.Currency, currency)
	if len(m.Dishes) == 0 {
		m.Link = string(s.URL)
	}
	return m, nil
}

// maxSections is how deep sections may lie in each other.
const maxSections = 8

// addTo adds the items of a section, which has the names of those around it and its own. The
// outermost is the dish's type; those within are its sub-type, or the same one if there are
// none.
func (s *schemaSection) addTo(m *menu.Menu, currency string, names []string) error {
	if len(names) > maxSections {
		return fmt.Errorf("sections lie in each other: write at most %d levels", maxSections)
	}
	kind, sub := "menu", "menu"
	if len(names) > 0 {
		kind, sub = names[0], strings.Join(names[min(1, len(names)-1):], ", ")
	}
	for i := range s.Items {
		item := &s.Items[i]
		if len(item.Offers) != 1 {
			return fmt.Errorf("%.80q has %d offers: write one, as a dish has one price", item.Name, len(item.Offers))
		}
		offer := &item.Offers[0]
		of := cmp.Or(string(offer.Currency), currency)
		if m.Currency = cmp.Or(m.Currency, of); m.Currency != of {
			return fmt.Errorf("%.80q: priceCurrency is %.40q, and %.40q before: write one for the whole menu", item.Name, of, m.Currency)
		}
		price, err := parseMoney(string(offer.Price), of)
		if err != nil {
			return fmt.Errorf("%.80q: %w", item.Name, err)
		}
		d := menu.Dish{Type: kind, SubType: sub, Name: string(item.Name), Price: price, Ingredients: item.Ingredients}
		if len(item.Images) > 0 { // several are the same in other shapes
			d.Photo = string(item.Images[0])
		}
		m.Dishes = append(m.Dishes, d)
	}
	for i := range s.Sections {
		inner := &s.Sections[i]
		if err := inner.addTo(m, currency, append(slices.Clip(names), string(inner.Name))); err != nil {
			return err
		}
	}
	return nil
}

// explainJSON says what is wrong with JSON without the library's types, and at which byte.
func explainJSON(err error) (int64, error) {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return syntax.ByteOffset, fmt.Errorf("%w: write JSON", syntax.Err)
	}
	semantic, ok := errors.AsType[*json.SemanticError](err)
	switch {
	case !ok:
		return 0, err
	case errors.Is(semantic.Err, json.ErrUnknownName):
		return semantic.ByteOffset, fmt.Errorf("%.80q is not known: write of a dish dishType, subType, dish, price, ingredients and photo", semantic.JSONPointer)
	}
	return semantic.ByteOffset, fmt.Errorf("%.80q has the wrong kind of value", semantic.JSONPointer)
}
