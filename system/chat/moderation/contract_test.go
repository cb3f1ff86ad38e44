package moderation

import (
	"errors"
	"reflect"
	"testing"

	"loadstone/system/chat"
	"loadstone/system/chat/contracttest"
)

// record is a line of a file of the contract.
type record struct {
	Name    string `json:"name"`
	Wire    string `json:"wire"`
	Error   string `json:"error"`
	Request struct {
		Act   *Action `json:"act"`
		ID    string  `json:"id"`
		React string  `json:"react"`
	} `json:"request"`
}

func TestWhatIsToldAgreesWithTheContract(t *testing.T) {
	t.Parallel()
	m := chat.Message{Offset: 17, At: 1_800_000_000_123, Sender: "u-7", Name: "Noor", ID: "c-1", Text: "hello"}
	want := map[string][]byte{
		"settings":  AppendSettings(nil, Settings{Slow: 10, Followers: true, Unique: true, Delay: 5, Words: []string{"a secret"}}),
		"pinned":    AppendPinned(nil, m.Append(nil)),
		"unpinned":  AppendPinned(nil, nil),
		"deleted":   AppendDeleted(nil, 17, 19),
		"reactions": AppendReactions(nil, &Counts{0: 12, len(kinds) - 1: 1}),
		"held":      AppendHeld(nil, [][]byte{m.Append(nil)}),
		"role":      AppendRole(nil, Moderator),
		"no_role":   AppendRole(nil, Viewer),
		"done":      AppendDone(nil, "a-1"),
		"slow_mode": chat.AppendLater(nil, "c-2", &chat.WaitError{Err: ErrSlow, Seconds: 9}),
	}
	all := contracttest.Records[record](t, "../contract/room.jsonl")
	for _, r := range all {
		if r.Wire != string(want[r.Name]) {
			t.Errorf("%s: got\n%s, want\n%s", r.Name, want[r.Name], r.Wire)
		}
	}
	if len(all) != len(want) {
		t.Errorf("the contract has %d records, want %d", len(all), len(want))
	}
}

func TestRequestsAgreeWithTheContract(t *testing.T) {
	t.Parallel()
	for _, r := range contracttest.Records[record](t, "../contract/requests.jsonl") {
		got, err := ParseRequest([]byte(r.Wire))
		if r.Error != "" {
			if e, ok := errors.AsType[*chat.Error](err); !ok || e.Code != r.Error {
				t.Errorf("%s: got %+v, %v, want %s", r.Name, got, err, r.Error)
			}
			continue
		}
		if want := Request(r.Request); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", r.Name, got, err, want)
		}
	}
}
