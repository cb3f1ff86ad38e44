package chat

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"loadstone/system/chat/contracttest"
)

// record is a line of a file of the contract.
type record struct {
	Name      string   `json:"name"`
	Wire      string   `json:"wire"`
	Message   *Message `json:"message"`
	OtherForm bool     `json:"other_form"`
	Send      *Send    `json:"send"`
	Error     string   `json:"error"`
	// BeyondSchema says that the record is refused, and that no schema can see why.
	BeyondSchema bool `json:"beyond_schema"`
}

func TestMessagesAgreeWithTheContract(t *testing.T) {
	t.Parallel()
	for _, r := range contracttest.Records[record](t, "contract/messages.jsonl") {
		got, err := ParseMessage([]byte(r.Wire))
		switch {
		case r.Message == nil:
			if err == nil {
				t.Errorf("%s: got %+v, want it refused", r.Name, got)
			}
			continue
		case err != nil || !reflect.DeepEqual(got, *r.Message):
			t.Errorf("%s: got %+v, %v, want %+v", r.Name, got, err, r.Message)
		}
		if wire := string(r.Message.Append(nil)); wire != r.Wire && !r.OtherForm {
			t.Errorf("%s: got\n%s, want\n%s", r.Name, wire, r.Wire)
		}
	}
}

func TestSendsAgreeWithTheContract(t *testing.T) {
	t.Parallel()
	for _, r := range contracttest.Records[record](t, "contract/sends.jsonl") {
		got, err := ParseSend([]byte(r.Wire))
		switch {
		case r.Send != nil && (err != nil || got != *r.Send):
			t.Errorf("%s: got %+v, %v, want %+v", r.Name, got, err, r.Send)
		case r.Send == nil && err == nil:
			t.Errorf("%s: got %+v, want it refused with %s", r.Name, got, r.Error)
		case r.Send == nil:
			if e, ok := err.(*Error); !ok || e.Code != r.Error { //nolint:errorlint // it is not wrapped
				t.Errorf("%s: got %v, want %s", r.Name, err, r.Error)
			}
		}
	}
}

func TestWhatIsToldAgreesWithTheContract(t *testing.T) {
	t.Parallel()
	messages := Message{Offset: 17, At: 1_800_000_000_123, Sender: "guest-ABCDEFGHIJKLMNOPQRSTUVWXYZ", Name: "Noor", ID: "c-1", Text: "hello"}
	r := NewRoom(DefaultRoomConfig(), 17)
	r.Append(17, messages.Append(nil))
	messages.Offset, messages.Text = 18, "안녕"
	r.Append(18, messages.Append(nil))
	const header = 4 // of a frame of 126 to 65,535 bytes
	joined := Joined{Epoch: 0x0123456789abcdef, Next: 17, Recovered: true, User: messages.Sender, Name: "민수"}
	want := map[string][]byte{
		"joined": joined.Append(nil), "messages": r.Newest(17).Bytes[header:], "skipped": appendSkipped(nil, 312), "ack": AppendAck(nil, "c-1", 18), "ack_without_place": AppendAccepted(nil, "c-1"),
		"joined_as_host":   (&Joined{Epoch: 0x0123456789abcdef, User: messages.Sender, Name: "Noor", Role: "host"}).Append(nil),
		"error_for_a_time": AppendLater(nil, "c-1", &WaitError{Err: ErrTooMany, Seconds: 7}),
		"error":            AppendRefusal(nil, "c-1", ErrTooLong), "error_without_id": AppendRefusal(nil, "", ErrID),
	}
	var names []string
	for _, c := range contracttest.Records[record](t, "contract/told.jsonl") {
		names = append(names, c.Name)
		if c.Wire != string(want[c.Name]) {
			t.Errorf("%s: got\n%s, want\n%s", c.Name, want[c.Name], c.Wire)
		}
	}
	if slices.Sort(names); len(slices.Compact(names)) != len(want) {
		t.Errorf("the contract has %s", strings.Join(names, ", "))
	}
}
