package menu

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"loadstone/block/dataset"
	"loadstone/block/text"
)

// Bounds of a menu. Those of texts are in bytes. A menu within them has at most
// MaxBodyBytes of JSON: Validate sees to it.
const (
	MaxDishes      = 500
	MaxText        = 200
	MaxIngredients = 50
	MaxLink        = 2000
	MaxBodyBytes   = 64 << 10
)

// DefaultCurrency is that of a menu that names none.
const DefaultCurrency = "USD"

// Menu is what one restaurant serves.
type Menu struct {
	// ID is the restaurant's, from 1 to dataset.MaxID.
	ID int64
	// Dishes in the order of the menu; none if Link is given.
	Dishes []Dish
	// Link is the http or https address of a menu elsewhere; empty if there is none.
	Link string
	// Currency of all prices, as ISO 4217 writes it, such as "EUR".
	Currency string
}

// Dish is one line of a menu.
type Dish struct {
	// Type and SubType are the sections that it stands in, such as "dinner" and "main".
	Type, SubType string
	Name          string
	// Price is in the minor unit of the menu's currency: 1250 is 12.50 dollars.
	Price int64
	// Ingredients may be none.
	Ingredients []string
	// Photo is the https address of a picture of the dish; empty if there is none.
	Photo string
}

// MaxPrice bounds a price in minor units, so that it is exact in any client's number.
const MaxPrice = 999_999_999_999

// Validate returns every problem of the menu, joined, each with what to write instead;
// nil if there is none.
func (m *Menu) Validate() error {
	var problems []error
	add := func(problem error) {
		if problem != nil {
			problems = append(problems, problem)
		}
	}
	if m.ID < 1 || m.ID > dataset.MaxID {
		add(fmt.Errorf("id is %d: write 1 to 18 digits, not 0", m.ID))
	}
	if _, known := minorDigits(m.Currency); !known {
		add(fmt.Errorf("currency is %q: write three capital letters, such as %s", m.Currency, DefaultCurrency))
	}
	add(checkAddress("link", m.Link, "https://example.com/menu", "http", "https"))
	switch {
	case m.Link == "" && len(m.Dishes) == 0:
		add(errors.New("there are no dishes and no link: write either"))
	case m.Link != "" && len(m.Dishes) > 0:
		add(errors.New("there are dishes and a link: write either"))
	case len(m.Dishes) > MaxDishes:
		add(fmt.Errorf("there are %d dishes: write at most %d", len(m.Dishes), MaxDishes))
		return errors.Join(problems...)
	}
	for i := range m.Dishes {
		if err := m.Dishes[i].validate(); err != nil {
			add(fmt.Errorf("dishes[%d]: %w", i, err))
		}
	}
	if problems == nil && len(m.Dishes) > 0 {
		if n := len(m.AppendJSON(nil)); n > MaxBodyBytes {
			add(fmt.Errorf("the menu has %d bytes as JSON: write at most %d", n, MaxBodyBytes))
		}
	}
	return errors.Join(problems...)
}

func (d *Dish) validate() error {
	problems := []error{
		text.Check("dishType", d.Type, MaxText),
		text.Check("subType", d.SubType, MaxText),
		text.Check("dish", d.Name, MaxText),
		CheckPhoto(d.Photo),
	}
	if d.Price < 0 || d.Price > MaxPrice {
		problems = append(problems, fmt.Errorf("price is %d minor units: write 0 to %d", d.Price, int64(MaxPrice)))
	}
	if len(d.Ingredients) > MaxIngredients {
		return errors.Join(append(problems, fmt.Errorf("there are %d ingredients: write at most %d", len(d.Ingredients), MaxIngredients))...)
	}
	for i, ingredient := range d.Ingredients {
		problems = append(problems, text.Check(fmt.Sprintf("ingredients[%d]", i), ingredient, MaxText))
	}
	return errors.Join(problems...)
}

// CheckPhoto returns what is wrong with a dish's photo, or nil. It must be https: a page that
// came by TLS does not load pictures that did not, and would then show none.
func CheckPhoto(photo string) error {
	return checkAddress("photo", photo, "https://example.com/shiro.jpg", "https")
}

// checkAddress lets only addresses through that a browser fetches: what is put into a page as
// a link or a picture must not be a program. None is good.
func checkAddress(field, address, example string, schemes ...string) error {
	if address == "" {
		return nil
	}
	if err := text.Check(field, address, MaxLink); err != nil {
		return err
	}
	parsed, err := url.Parse(address)
	if err != nil || !slices.Contains(schemes, parsed.Scheme) || parsed.Hostname() == "" || parsed.User != nil ||
		strings.ContainsAny(address, " \\\"'<>`") {
		return fmt.Errorf("%s is %q: write an %s address such as %s", field, address, strings.Join(schemes, " or "), example)
	}
	return nil
}
