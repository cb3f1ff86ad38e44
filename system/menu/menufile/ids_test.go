package menufile

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

func TestReadIDs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]int64{
		"7":                           {7},
		"7\r\n\n 8 \n7\n":             {7, 8, 7},
		"\xef\xbb\xbf7\n":             {7},
		"999999999999999999\n":        {dataset.MaxID},
		zipped(t, "1\n2\n"):           {1, 2},
		strings.Repeat("12\n", 50000): slices.Repeat([]int64{12}, 50000),
	} {
		if got, err := ReadIDs(t.Context(), "hot", strings.NewReader(text)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%.20q: got %v and %v, want %v", text, got, err, want)
		}
	}
}

func TestReadIDsListsMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                               {"hot holds no ids"},
		"\n\n":                           {"hot holds no ids"},
		"1\nid\n\n0\n7,8\n":              {"mistakes: 3", `hot:2:1: "id" is not an id`, `hot:4:1: "0"`, `hot:5:1: "7,8"`},
		strings.Repeat("x\n", 30):        {"mistakes: 30", "hot:20:1: ", "and 10 more"},
		"1\n" + strings.Repeat("1", 1e5): {"hot:2:1: the line has more than 65536 bytes"},
		"\xff\xfe1\x00":                  {"hot is UTF-16"},
		zipped(t, "1\n2\n")[:24]:         {"hot is cut short or damaged"},
	} {
		ids, err := ReadIDs(t.Context(), "hot", strings.NewReader(text))
		if !errors.Is(err, menu.ErrInput) || ids != nil {
			t.Fatalf("%.20q: got %v and %v, want ErrInput", text, ids, err)
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%.20q: got %v, want %q", text, err, part)
			}
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := ReadIDs(ended, "hot", strings.NewReader("1\n")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's end", err)
	}
}
