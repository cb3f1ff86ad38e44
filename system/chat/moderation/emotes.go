package moderation

import "unicode"

// emoji are the blocks of emoji, without the letters in circles and squares beside them, and
// joining what emoji are joined, coloured and varied with.
var (
	emoji = &unicode.RangeTable{
		R16: []unicode.Range16{
			{Lo: 0x203c, Hi: 0x203c, Stride: 1}, {Lo: 0x2049, Hi: 0x2049, Stride: 1}, {Lo: 0x2190, Hi: 0x21ff, Stride: 1},
			{Lo: 0x2300, Hi: 0x23ff, Stride: 1}, {Lo: 0x25a0, Hi: 0x27bf, Stride: 1}, {Lo: 0x2934, Hi: 0x2935, Stride: 1},
			{Lo: 0x2b05, Hi: 0x2b55, Stride: 1}, {Lo: 0x3030, Hi: 0x3030, Stride: 1},
		},
		R32: []unicode.Range32{
			{Lo: 0x1f000, Hi: 0x1f0ff, Stride: 1}, {Lo: 0x1f170, Hi: 0x1f171, Stride: 1}, {Lo: 0x1f191, Hi: 0x1f19a, Stride: 1},
			{Lo: 0x1f1e6, Hi: 0x1f1ff, Stride: 1}, {Lo: 0x1f300, Hi: 0x1faff, Stride: 1},
		},
	}
	joining = &unicode.RangeTable{
		R16: []unicode.Range16{{Lo: 0x200d, Hi: 0x200d, Stride: 1}, {Lo: 0x20e3, Hi: 0x20e3, Stride: 1}, {Lo: 0xfe0f, Hi: 0xfe0f, Stride: 1}},
		R32: []unicode.Range32{{Lo: 0xe0020, Hi: 0xe007f, Stride: 1}},
	}
)

// onlyEmoji reports whether a text has emoji and spaces and nothing else.
func onlyEmoji(text string) bool {
	some := false
	for _, r := range text {
		switch {
		case unicode.Is(emoji, r):
			some = true
		case !unicode.Is(joining, r) && !unicode.IsSpace(r):
			return false
		}
	}
	return some
}
