package chat

import (
	"reflect"
	"testing"

	"loadstone/system/chat/contracttest"
)

func TestRawRecordsAgreeWithTheContract(t *testing.T) {
	t.Parallel()
	for _, r := range contracttest.Records[struct {
		Name string `json:"name"`
		Wire string `json:"wire"`
		Raw  *Raw   `json:"raw"`
	}](t, "contract/raw.jsonl") {
		got, err := ParseRaw([]byte(r.Wire))
		switch {
		case r.Raw == nil:
			if err == nil {
				t.Errorf("%s: got %+v, want it refused", r.Name, got)
			}
		case err != nil || !reflect.DeepEqual(got, *r.Raw):
			t.Errorf("%s: got %+v, %v, want %+v", r.Name, got, err, *r.Raw)
		default:
			if again, err := ParseRaw(got.Append(nil)); err != nil || !reflect.DeepEqual(again, got) {
				t.Errorf("%s: written and read again it is %+v, %v", r.Name, again, err)
			}
		}
	}
}

func TestLanesKeepASenderTogetherAndSpreadARoom(t *testing.T) {
	t.Parallel()
	lanes := map[string]bool{}
	for i := range 1000 {
		r := Raw{Stream: 7, Message: Message{Sender: string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)), ID: "1"}}
		first := r.Lane()
		r.ID = "2"
		if r.Lane() != first {
			t.Fatalf("two messages of %s are in different lanes", r.Sender)
		}
		lanes[first] = true
	}
	if len(lanes) != Lanes {
		t.Errorf("1000 senders are in %d lanes, want all %d", len(lanes), Lanes)
	}
	if a, b := (&Raw{Stream: 1}).Lane(), (&Raw{Stream: 11}).Lane(); a == b {
		t.Errorf("two rooms share the lane %s", a)
	}
}
