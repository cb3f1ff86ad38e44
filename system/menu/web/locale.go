package web

import (
	"strings"

	"loadstone/system/menu"
)

// locale is how a language writes prices.
type locale struct {
	language string
	point    string // the decimal sign
	group    string // between thousands
	// behind: the currency stands behind the amount; else before it.
	behind bool
	// apart: there is a space between a currency's sign and the amount. There always is
	// between a code and the amount.
	apart bool
}

const (
	space       = "\u00a0" // not broken
	narrowSpace = "\u202f"
)

// locales are the languages that are known; the first is for all others.
var locales = [...]locale{
	{"en", ".", ",", false, false},
	{"de", ",", ".", true, true},
	{"es", ",", ".", true, true},
	{"fr", ",", narrowSpace, true, true},
	{"it", ",", ".", true, true},
	{"ja", ".", ",", false, false},
	{"nl", ",", ".", false, true},
	{"pl", ",", space, true, true},
	{"pt", ",", ".", false, true},
	{"sv", ",", space, true, true},
	{"zh", ".", ",", false, false},
}

// signs are those that mean one currency to everybody, or nearly; the others are written
// as their codes.
var signs = map[string]string{"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹", "KRW": "₩", "ILS": "₪", "VND": "₫"}

// price writes an amount of a currency's minor unit: 1250 US cents are $12.50 in English and
// 12,50 $ in German.
func (l locale) price(amount int64, currency string) string {
	whole, part, minor := strings.Cut(string(menu.AppendPrice(nil, amount, currency)), ".")
	var b strings.Builder
	for i, digit := range whole {
		if left := len(whole) - i; i > 0 && left%3 == 0 {
			b.WriteString(l.group)
		}
		b.WriteRune(digit)
	}
	if minor {
		b.WriteString(l.point + part)
	}
	name, gap := currency, space
	if sign, ok := signs[currency]; ok {
		name = sign
		if !l.apart {
			gap = ""
		}
	}
	if l.behind {
		return b.String() + gap + name
	}
	return name + gap + b.String()
}

// languages are those of locales.
var languages = func() (all []string) {
	for _, l := range locales {
		all = append(all, l.language)
	}
	return all
}()
