package dataset

// MaxID is the largest id: 18 decimal digits, so that an id always fits an
// int64 without an overflow check.
const MaxID = 999_999_999_999_999_999

const maxIDDigits = 18

// ParseID reads the id of a record: 1 to 18 decimal digits, nothing else.
//
// Leading zeros are refused, and with them 0 itself, which is no id. Reading 007
// as 7 would give one record many addresses: caches would hold it many
// times and a limit per address would not hold.
func ParseID[T ~string | ~[]byte](text T) (id int64, ok bool) {
	if len(text) == 0 || len(text) > maxIDDigits || text[0] == '0' {
		return 0, false
	}
	for i := range len(text) {
		digit := text[i] - '0'
		if digit > 9 {
			return 0, false
		}
		id = id*10 + int64(digit)
	}
	return id, true
}
