package results

// Date is a day of the Gregorian calendar. The zero Date is invalid. It takes a
// sixth of a time.Time and has no time zone to get wrong.
type Date struct {
	Year  uint16
	Month uint8
	Day   uint8
}

// Birth dates outside these years are mistakes of typing.
const (
	minYear = 1900
	maxYear = 2100
)

var daysInMonth = [...]uint8{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// ParseDate reads YYYY-MM-DD and reports whether it is a day that exists, in the
// years 1900 to 2100.
func ParseDate(text string) (Date, bool) {
	if len(text) != len("2006-01-02") || text[4] != '-' || text[7] != '-' {
		return Date{}, false
	}
	year, yearOK := digits(text[:4])
	month, monthOK := digits(text[5:7])
	day, dayOK := digits(text[8:])
	if !yearOK || !monthOK || !dayOK {
		return Date{}, false
	}
	// At most four digits and two digits: the conversions keep the values.
	date := Date{Year: year, Month: uint8(month & 0xff), Day: uint8(day & 0xff)}
	return date, date.Valid()
}

func digits(text string) (value uint16, ok bool) {
	for i := range len(text) {
		digit := text[i] - '0'
		if digit > 9 {
			return 0, false
		}
		value = value*10 + uint16(digit)
	}
	return value, true
}

// Valid reports whether the day exists and lies in the years 1900 to 2100.
func (d Date) Valid() bool {
	if d.Year < minYear || d.Year > maxYear || d.Month < 1 || d.Month > 12 || d.Day < 1 {
		return false
	}
	if d.Month == 2 && d.leapYear() {
		return d.Day <= 29
	}
	return d.Day <= daysInMonth[d.Month]
}

func (d Date) leapYear() bool {
	return d.Year%4 == 0 && (d.Year%100 != 0 || d.Year%400 == 0)
}

// Append appends the date as YYYY-MM-DD.
func (d Date) Append(dst []byte) []byte {
	year := d.Year % 10000
	return append(dst,
		'0'+byte(year/1000), '0'+byte(year/100%10), '0'+byte(year/10%10), '0'+byte(year%10), '-',
		'0'+d.Month/10%10, '0'+d.Month%10, '-',
		'0'+d.Day/10%10, '0'+d.Day%10)
}

// String returns the date as YYYY-MM-DD.
func (d Date) String() string {
	return string(d.Append(make([]byte, 0, len("2006-01-02"))))
}
