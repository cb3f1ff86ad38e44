package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/lab/load/summary"
)

// viewers is a load of the chat: guests with tokens of their own, in two rooms.
const viewers = `
load:
  warmup: 6s # in which all connect
  scenarios:
    viewers:
      executor: constant-vus
      vus: 20
      duration: 12s
      feed: {room: {sequential: [1, 2]}, n: {sequential: [1, 1000]}}
      websocket:
        login: {request: {method: POST, path: /api/guest, body: '{"name": "viewer {n}"}'}, extract: {token: token}}
        path: /ws?stream={room}&token={token}
        room: "{room}"
        joined: '"type":"joined"'
        ping: 200ms
        message: '{"type": "send", "id": "{id}", "text": "hello from {n}"}'
        rate: 10/s
        deliver: all
        ack: '"type":"ack"'
        refused: '"type":"error"'
        skipped: '"type":"skipped","count":{count}'
slo:
  ws_connecting: [p(95)<60000]
  ws_msg_duration: [p(95)<60000]
  ws_ack_duration: [p(95)<60000]
  ws_ping: [p(95)<60000]
  ws_msgs_lost: [rate==0]
  ws_msgs_skipped: [rate==0]
  ws_msgs_refused: [rate<1]
  ws_msgs_duplicates: [rate==0]
  ws_closed: [rate==0]
`

// The chat and what loads it agree: each message that was acknowledged came to each viewer of its room once. On a
// machine whose disk stands still for seconds it refuses some.
func TestTheChatUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	chatSaid(t, dir, 0, "chat-data has 2 streams", "seed", "--streams", "2")
	_, url := serviceOf(t, dir, nil, "chat", "serve", "--tick", "20ms", "--messages-per-user", "1000", "--messages-per-network", "100000", "--guests-per-network", "10000")
	file := filepath.Join(dir, "viewers.yaml")
	if err := os.WriteFile(file, []byte(viewers), 0o600); err != nil {
		t.Fatal(err)
	}
	got := loadstone(t, dir, "load", file, "--target", url, "--json", "-")
	if got.code != exitOK {
		t.Fatalf("exit status %d: %s\n%s", got.code, got.stderr, got.stdout)
	}
	var s summary.Summary
	if err := json.Unmarshal([]byte(got.stdout), &s); err != nil {
		t.Fatal(err)
	}
	w := s.WebSocket
	if w == nil || w.Connects != 20 || w.Acked < 100 || w.Acked+w.Refused != w.Sent || w.Lost+w.CutOff+w.Skipped+w.Duplicates+w.Closed != 0 {
		t.Fatalf("got %+v, want 20 viewers, what was sent acknowledged or refused, and nothing lost", w)
	}
	// Ten viewers a room; who had not joined yet is not due what was said first.
	if w.Delivered > 10*w.Acked || w.Delivered < 9*w.Acked {
		t.Errorf("got %d deliveries of %d messages, want about ten each", w.Delivered, w.Acked)
	}
}

// A limit of the chat shows as what it is: messages that were not accepted, and are not lost.
func TestTheChatRefusesUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	chatSaid(t, dir, 0, "chat-data has 2 streams", "seed", "--streams", "2")
	_, url := serviceOf(t, dir, nil, "chat", "serve", "--tick", "0", "--messages-per-user", "1", "--messages-per-network", "100000", "--guests-per-network", "10000")
	file := filepath.Join(dir, "viewers.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(viewers, "rate<1]", "rate==0]", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	got := loadstone(t, dir, "load", file, "--target", url, "--json", "-")
	var s summary.Summary
	if err := json.Unmarshal([]byte(got.stdout), &s); err != nil {
		t.Fatalf("%v: %s", err, got.stderr)
	}
	w := s.WebSocket
	for _, o := range s.Thresholds {
		if missed := o.Metric == "ws_msgs_refused"; o.Met == missed {
			t.Errorf("got %+v, want ws_msgs_refused alone missed", o)
		}
	}
	if got.code == exitOK || w == nil || w.Refused == 0 || w.Acked+w.Refused > w.Sent {
		t.Errorf("exit status %d, %+v; want a missed objective, and refusals", got.code, w)
	}
}
