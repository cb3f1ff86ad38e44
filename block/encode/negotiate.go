package encode

import (
	"bytes"
	"slices"
)

// Negotiate returns which of the offered content codings an answer should have for a client
// that sent this Accept-Encoding (RFC 9110, 12.5.3), and "" for none, which is the coding
// identity. Offered are names in lower case, the preferred one first, that wins where the
// client likes several alike. It reports false where the client takes nothing of it all,
// because it refuses identity.
func Negotiate(accept []byte, offered []string) (coding string, ok bool) {
	const unsaid = -1
	weights := make([]int, len(offered), 8)
	for i := range weights {
		weights[i] = unsaid
	}
	identity, others := unsaid, unsaid
	for element := range bytes.SplitSeq(accept, []byte{','}) {
		name, parameters, _ := bytes.Cut(element, []byte{';'})
		weight := weigh(parameters)
		switch name := string(bytes.ToLower(bytes.TrimSpace(name))); name {
		case "*":
			others = weight
		case "identity":
			identity = weight
		case "x-gzip":
			name = "gzip"
			fallthrough
		default:
			if i := slices.Index(offered, name); i >= 0 {
				weights[i] = weight
			}
		}
	}
	best := 0
	for i, weight := range weights {
		if weight == unsaid {
			weight = others
		}
		if weight > best {
			best, coding = weight, offered[i]
		}
	}
	if identity == unsaid {
		identity = others // none of both: it may be sent, and anything else is better
	}
	switch {
	case best > 0 && best >= identity:
		return coding, true
	case identity != 0:
		return "", true
	}
	return "", false
}

// weigh reads ";q=" in thousandths. What cannot be read weighs nothing: the client did not
// clearly ask for it.
func weigh(parameters []byte) int {
	parameters = bytes.TrimSpace(parameters)
	if len(parameters) == 0 {
		return 1000
	}
	name, value, _ := bytes.Cut(parameters, []byte{'='})
	if !bytes.EqualFold(bytes.TrimSpace(name), []byte{'q'}) {
		return 0
	}
	value = bytes.TrimSpace(value)
	if len(value) == 0 || len(value) > len("0.000") || len(value) > 1 && value[1] != '.' {
		return 0
	}
	weight, digit := 0, 1000
	for i, char := range value {
		if i == 1 {
			continue
		}
		if char < '0' || char > '9' {
			return 0
		}
		weight += int(char-'0') * digit
		digit /= 10
	}
	if weight > 1000 {
		return 0
	}
	return weight
}
