package menu

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/cespare/xxhash/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"loadstone/block/encode"
)

// AppendJSON appends the menu as clients get it, about 1.1 kB:
//
//	{"id":7,"dishes":[{"dishType":"dinner","subType":"main","dish":"Shiro","price":12.50,
//	"ingredients":["chickpeas","garlic"]}],"link":null,"currency":"USD"}
//
// A dish that has a photo has "photo":"https://example.com/shiro.jpg" behind its ingredients;
// the others do not have the name.
//
// The same menu always gives the same bytes. A change to them makes published files
// differ from fresh ones under one fingerprint: raise generatorVersion with it.
func (m *Menu) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = strconv.AppendInt(dst, m.ID, 10)
	dst = append(dst, `,"dishes":[`...)
	for i := range m.Dishes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = m.Dishes[i].appendJSON(dst, m.Currency)
	}
	dst = append(dst, `],"link":`...)
	if m.Link == "" {
		dst = append(dst, `null`...)
	} else {
		dst = encode.String(dst, m.Link)
	}
	dst = append(dst, `,"currency":"`...)
	dst = append(dst, m.Currency...)
	return append(dst, `"}`...)
}

func (d *Dish) appendJSON(dst []byte, currency string) []byte {
	dst = append(dst, `{"dishType":`...)
	dst = encode.String(dst, d.Type)
	dst = append(dst, `,"subType":`...)
	dst = encode.String(dst, d.SubType)
	dst = append(dst, `,"dish":`...)
	dst = encode.String(dst, d.Name)
	dst = append(dst, `,"price":`...)
	dst = AppendPrice(dst, d.Price, currency)
	dst = append(dst, `,"ingredients":[`...)
	for i, ingredient := range d.Ingredients {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = encode.String(dst, ingredient)
	}
	dst = append(dst, ']')
	if d.Photo != "" {
		dst = append(dst, `,"photo":`...)
		dst = encode.String(dst, d.Photo)
	}
	return append(dst, '}')
}

// wireMenu is a menu as clients write it. What may be left out is a pointer, or null.
type wireMenu struct {
	ID       *int64     `json:"id"`
	Dishes   []wireDish `json:"dishes"`
	Link     *string    `json:"link"`
	Currency *string    `json:"currency"`
}

type wireDish struct {
	Type        string         `json:"dishType"`
	SubType     string         `json:"subType"`
	Name        string         `json:"dish"`
	Price       jsontext.Value `json:"price"`
	Ingredients []string       `json:"ingredients"`
	Photo       string         `json:"photo"`
}

// ParseJSON reads a menu as AppendJSON writes it; id, link, currency, ingredients and photo may
// be missing or null, and so may dishes where there is a link. A price may also be a string,
// as programs write it that do not trust numbers.
//
// It is strict: names that it does not know, names that come twice, text that is not
// Unicode, and anything behind the menu are refused. The result is not validated, and its
// ID is 0 if there is none. The error wraps ErrInput.
func ParseJSON(body []byte) (Menu, error) { return ParseJSONIn(body, DefaultCurrency) }

// ParseStored reads the body that a store has of the menu with the id. The error wraps
// ErrCorrupt: what was stored was that menu, and valid.
func ParseStored(id int64, body []byte) (Menu, error) {
	m, err := ParseJSON(body)
	if err == nil && m.ID != id {
		err = fmt.Errorf("it is menu %d", m.ID)
	}
	if err != nil {
		return Menu{}, fmt.Errorf("what is stored as menu %d: %w: %w", id, ErrCorrupt, err)
	}
	return m, nil
}

// ParseJSONIn is ParseJSON where a menu that names no currency has the given one.
func ParseJSONIn(body []byte, currency string) (Menu, error) {
	var wire wireMenu
	if err := json.Unmarshal(body, &wire, json.RejectUnknownMembers(true)); err != nil {
		return Menu{}, fmt.Errorf("%w: %w", ErrInput, plainly(err, "the menu", "id, dishes, link and currency, and of a dish dishType, subType, dish, price, ingredients and photo"))
	}
	m := Menu{Currency: currency}
	if wire.ID != nil {
		m.ID = *wire.ID
	}
	if wire.Link != nil {
		m.Link = *wire.Link
	}
	if wire.Currency != nil {
		m.Currency = *wire.Currency
	}
	if len(wire.Dishes) > 0 {
		m.Dishes = make([]Dish, 0, min(len(wire.Dishes), MaxDishes))
	}
	for i, d := range wire.Dishes {
		price, err := d.price(m.Currency)
		if err != nil {
			return Menu{}, fmt.Errorf("%w: dishes[%d]: %w", ErrInput, i, err)
		}
		m.Dishes = append(m.Dishes, Dish{Type: d.Type, SubType: d.SubType, Name: d.Name, Price: price, Ingredients: d.Ingredients, Photo: d.Photo})
	}
	return m, nil
}

func (d *wireDish) price(currency string) (int64, error) {
	switch d.Price.Kind() {
	case jsontext.KindNumber:
		return ParsePrice(string(d.Price), currency)
	case jsontext.KindString:
		amount, err := jsontext.AppendUnquote(nil, d.Price)
		if err != nil {
			return 0, err
		}
		return ParsePrice(string(amount), currency)
	default:
		return 0, errors.New("price is missing: write an amount such as 12.50")
	}
}

// plainly says what was wrong with JSON, and where, without the library's types. whole is what
// the JSON is, and known are the names that it may have.
func plainly(err error, whole, known string) error {
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("byte %d: %w: write one JSON object", syntactic.ByteOffset+1, syntactic.Err)
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		where := string(semantic.JSONPointer)
		if where == "" {
			where = whole
		}
		if errors.Is(semantic.Err, json.ErrUnknownName) {
			return fmt.Errorf("%.80q is not known: write %s", where, known)
		}
		return fmt.Errorf("%.80q has the wrong kind of value", where)
	}
	return err
}

// Tag identifies a body: the XXH64 hash of its bytes. It is the same in every store and
// every process, so that replicas agree on a menu's ETag.
func Tag(body []byte) uint64 { return xxhash.Sum64(body) }
