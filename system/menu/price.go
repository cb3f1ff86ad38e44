package menu

import (
	"fmt"
	"strconv"
	"strings"
)

// Currencies whose minor unit is not a hundredth, of ISO 4217.
var (
	noMinor    = strings.Fields("BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF")
	thousandth = strings.Fields("BHD IQD JOD KWD LYD OMR TND")
)

var exponents = func() map[string]int {
	digits := make(map[string]int, len(noMinor)+len(thousandth))
	for _, c := range noMinor {
		digits[c] = 0
	}
	for _, c := range thousandth {
		digits[c] = 3
	}
	return digits
}()

// minorDigits is how many decimal digits the minor unit of a currency has. It knows every
// three capital letters: which of them are in use changes from year to year.
func minorDigits(currency string) (digits int, ok bool) {
	if len(currency) != 3 {
		return 0, false
	}
	for i := range len(currency) {
		if currency[i] < 'A' || currency[i] > 'Z' {
			return 0, false
		}
	}
	if digits, special := exponents[currency]; special {
		return digits, true
	}
	return 2, true
}

// ParsePrice reads an amount such as "12.5" in a currency's minor unit: 1250. It is
// decimal arithmetic; nothing is rounded.
func ParsePrice(amount, currency string) (int64, error) {
	digits, ok := minorDigits(currency)
	if !ok {
		return 0, fmt.Errorf("currency is %q: write three capital letters, such as %s", currency, DefaultCurrency)
	}
	whole, part, point := strings.Cut(amount, ".")
	wrong := whole == "" || len(whole) > 15 || (len(whole) > 1 && whole[0] == '0') || (point && part == "") || len(part) > digits
	text := whole + part + strings.Repeat("0", max(0, digits-len(part)))
	for i := range len(text) {
		wrong = wrong || text[i] < '0' || text[i] > '9'
	}
	price, err := strconv.ParseInt(text, 10, 64)
	if wrong || err != nil || price > MaxPrice {
		example := "12"
		if digits > 0 {
			example = "12." + strings.Repeat("5", digits)
		}
		return 0, fmt.Errorf("price is %.40q: write an amount of %s such as %s", amount, currency, example)
	}
	return price, nil
}

// AppendPrice appends a price of a currency as ParsePrice reads it, with all digits of the
// minor unit.
func AppendPrice(dst []byte, price int64, currency string) []byte {
	digits, _ := minorDigits(currency)
	start := len(dst)
	dst = strconv.AppendInt(dst, price, 10)
	if digits == 0 {
		return dst
	}
	for len(dst)-start <= digits {
		dst = append(dst, 0)
		copy(dst[start+1:], dst[start:])
		dst[start] = '0'
	}
	point := len(dst) - digits
	dst = append(dst, 0)
	copy(dst[point+1:], dst[point:])
	dst[point] = '.'
	return dst
}
