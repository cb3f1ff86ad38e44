// Package broadcast gives messages their places in rooms and tells all servers of them, in a Redis
// that they share.
//
//	Place ─► one script: a place, the history, the id, PUBLISH ─► Listen, in each server
//
// A message gets its place once, however often and by whomever Place is called: its id is known
// for Config.Remember. So whoever cannot know whether a message was placed places it again.
//
// Redis keeps the newest messages of each room and forgets the others; it is no store. What it
// forgets when a replica takes over that did not have all yet, it has under another Epoch: offsets
// of different epochs cannot be compared.
//
// What is published while a server's connection is lost is not heard. Listen says when it hears again,
// and History has what was missed.
package broadcast

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"loadstone/block/pause"
	"loadstone/block/redact"
	"loadstone/system/chat"
)

// AddressForm says how the address of Redis is written, for people: one server, or the sentinels
// that know the primary of that name.
const AddressForm = "redis://[USER:PASSWORD@]HOST[:PORT], or redis-sentinel://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]/NAME"

// Config says where Redis is, and what it keeps. Start from DefaultConfig.
type Config struct {
	// Address is in the form of AddressForm. Password is that of the address if it has none.
	Address, Password string
	// Keep is how many messages of a room are kept: older ones go when this client gives one its place.
	Keep int
	// Remember is how long the place of a message is known by its id.
	Remember time.Duration
	// Timeout bounds each call, also where the caller would wait for longer: what only reads is tried again until then.
	Timeout time.Duration
}

// MostKept is how many messages of a room can be kept.
const MostKept = 100_000

// DefaultConfig keeps a thousand messages, some four minutes of the busiest room and 200 KB, and
// knows ids for an hour: 250 messages a second are 900,000 keys of 150 bytes. A call takes a millisecond; after two seconds a
// Redis on a busy machine is as good as away, and those that wait behind the call have waited long enough.
func DefaultConfig() Config {
	return Config{Keep: 1000, Remember: time.Hour, Timeout: 2 * time.Second}
}

// Validate returns all problems, joined, or nil.
func (c Config) Validate() error {
	_, err := c.options()
	errs := []error{err}
	if c.Keep < 1 || c.Keep > MostKept {
		errs = append(errs, fmt.Errorf("%d messages of a room are kept: write 1 to %d", c.Keep, MostKept))
	}
	if c.Remember < time.Minute {
		errs = append(errs, fmt.Errorf("ids are known for %v: write 1m or more", c.Remember))
	}
	if c.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("one call of Redis may take %v: write more than 0", c.Timeout))
	}
	return errors.Join(errs...)
}

// Where is where Redis is, without a password.
func (c Config) Where() []string {
	o, err := c.options()
	if err != nil {
		return nil
	}
	return o.InitAddress
}

// options reads the address.
func (c Config) options() (rueidis.ClientOption, error) {
	scheme, rest, _ := strings.Cut(c.Address, "://")
	rest, name, _ := strings.Cut(rest, "/")
	at := strings.LastIndexByte(rest, '@') + 1
	user, hosts := rest[:at], rest[at:]
	first, _, several := strings.Cut(hosts, ",") // package url takes one host
	u, err := url.Parse("redis://" + user + first)
	if err != nil || u.Hostname() == "" {
		return rueidis.ClientOption{}, errors.New("redis must be " + AddressForm) // the reason would quote the password
	}
	sentinel := scheme == "redis-sentinel" && name != ""
	if !sentinel && (scheme != "redis" || name != "" || several) {
		return rueidis.ClientOption{}, fmt.Errorf("redis is %s, must be %s", redact.Address(c.Address), AddressForm)
	}
	o := rueidis.ClientOption{
		Username: u.User.Username(), Password: c.Password, DisableCache: true, ForceSingleClient: !sentinel,
		Dialer: net.Dialer{Timeout: c.Timeout}, ConnWriteTimeout: c.Timeout,
	}
	if password, ok := u.User.Password(); ok {
		o.Password = password
	}
	port := "6379"
	if sentinel {
		o.Sentinel, port = rueidis.SentinelOption{MasterSet: name, Dialer: o.Dialer}, "26379"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if !strings.Contains(host, ":") {
			host = net.JoinHostPort(host, port)
		}
		if h, p, err := net.SplitHostPort(host); err != nil || h == "" || p == "" {
			return rueidis.ClientOption{}, fmt.Errorf("redis is %s, must be %s", redact.Address(c.Address), AddressForm)
		}
		o.InitAddress = append(o.InitAddress, host)
	}
	return o, nil
}

// Client is safe for concurrent use.
type Client struct {
	cfg    Config
	client rueidis.Client
	hears  rueidis.Client // connections of its own: who hears may wait, and ask the other one
}

// openPause is between two attempts to connect.
const openPause = 200 * time.Millisecond

// Open connects. It waits for Redis until ctx ends.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	options, err := cfg.options()
	if err != nil {
		return nil, err
	}
	for {
		client, err := rueidis.NewClient(options)
		if err == nil {
			// One that tells when it lost its connection, rather than to listen again by itself.
			once := options
			once.DisableRetry = true
			var hears rueidis.Client
			if hears, err = rueidis.NewClient(once); err == nil {
				return &Client{cfg, client, hears}, nil
			}
			client.Close()
		}
		if !pause.For(ctx, openPause) {
			return nil, fmt.Errorf("connect to Redis at %s: %w", strings.Join(options.InitAddress, ", "), err)
		}
	}
}

// Close ends the connections.
func (c *Client) Close() {
	c.hears.Close()
	c.client.Close()
}

// Epoch is the name of what Redis has now.
func (c *Client) Epoch(ctx context.Context) (chat.Epoch, error) {
	h, err := c.History(ctx, 0, Range{}) // there is no such stream
	return h.Epoch, err
}

// Placed is a message's place.
type Placed struct {
	Epoch  chat.Epoch
	Offset uint64
	// At is the time of the message that has the place: of one that was sent again, the first's.
	At int64
	// Again says that it had the place before.
	Again bool
	// Err is why it is not known to have a place. It may be placed again.
	Err error
}

func lengthKey(stream int64) string  { return "chat:" + strconv.FormatInt(stream, 10) + ":length" }
func historyKey(stream int64) string { return "chat:" + strconv.FormatInt(stream, 10) + ":history" }

// saidKey: an id has no colon.
func saidKey(r *chat.Raw) string {
	return "chat:" + strconv.FormatInt(r.Stream, 10) + ":said:" + r.Sender + ":" + r.ID
}

const channelPrefix = "broadcast:"

// Place gives each message its place, in their order where they are new, and returns the places.
func (c *Client) Place(ctx context.Context, all []*chat.Raw) []Placed {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	keep, remember := strconv.Itoa(c.cfg.Keep), strconv.Itoa(int(c.cfg.Remember.Seconds()))
	calls := make([]call, len(all))
	for i, r := range all {
		calls[i] = call{
			[]string{lengthKey(r.Stream), historyKey(r.Stream), saidKey(r)},
			[]string{channelPrefix + strconv.FormatInt(r.Stream, 10), string(r.AppendUnplaced(nil)), keep, remember, strconv.FormatInt(r.At, 10)},
		}
	}
	places := make([]Placed, len(all))
	for i, result := range place.do(ctx, c.client, calls...) {
		places[i] = placed(result)
	}
	return places
}

func placed(result rueidis.RedisResult) (p Placed) {
	const members = 4
	answer, err := result.ToArray()
	if err != nil || len(answer) != members {
		p.Err = cmp.Or(err, errAnswer)
		return p
	}
	var text [members - 1]string
	var errs [members + 1]error
	for i := range text {
		text[i], errs[i] = answer[i].ToString()
	}
	p.Epoch, p.Err = parseEpoch(text[0])
	p.Offset, errs[members-1] = strconv.ParseUint(text[1], 10, 64)
	p.At, errs[members] = strconv.ParseInt(text[2], 10, 64)
	again, err := answer[members-1].AsInt64()
	p.Again = again == 1
	p.Err = errors.Join(append(errs[:], p.Err, err)...)
	return p
}

var errAnswer = errors.New("an answer of Redis cannot be read")

func parseEpoch(text string) (chat.Epoch, error) {
	e, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: its epoch is %.40q", errAnswer, text)
	}
	return chat.Epoch(e), nil
}

// History is what is kept of a room.
type History struct {
	Epoch chat.Epoch
	// Next is the offset of the room's next message.
	Next uint64
	// Messages follow each other.
	Messages []chat.Encoded
}

// Range are offsets From to before To, Most at most: the first, or the Newest.
type Range struct {
	From, To uint64
	Most     int
	Newest   bool
}

// History reads messages of a room. Those before what is kept are left out.
func (c *Client) History(ctx context.Context, stream int64, which Range) (History, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	newest := "0"
	if which.Newest {
		newest = "1"
	}
	const far = chat.MaxStream // exact in Lua's numbers
	answer, err := history.do(ctx, c.client, call{
		[]string{lengthKey(stream), historyKey(stream)},
		[]string{strconv.FormatUint(min(which.From, far), 10), strconv.FormatUint(min(which.To, far), 10), strconv.Itoa(which.Most), newest},
	})[0].AsStrSlice()
	if err != nil {
		return History{}, fmt.Errorf("read the history of stream %d: %w", stream, err)
	}
	const head = 3
	if len(answer) < head {
		return History{}, errAnswer
	}
	var h History
	var errs [head]error
	h.Epoch, errs[0] = parseEpoch(answer[0])
	h.Next, errs[1] = strconv.ParseUint(answer[1], 10, 64)
	first, err := strconv.ParseUint(answer[2], 10, 64)
	errs[2] = err
	if err := errors.Join(errs[:]...); err != nil {
		return History{}, err
	}
	for i, text := range answer[head:] {
		h.Messages = append(h.Messages, chat.Encoded{Offset: first + uint64(i), Bytes: []byte(text)})
	}
	return h, nil
}

func summaryKey(stream int64) string { return "chat:" + strconv.FormatInt(stream, 10) + ":summary" }

// KeepSummary keeps a summary of a stream, and reports whether it did: it is not older than the one that is kept, and of
// messages that there are. Who makes summaries may make old ones again.
func (c *Client) KeepSummary(ctx context.Context, stream int64, summary []byte) (kept bool, err error) {
	var of struct {
		Next uint64 `json:"next"`
	}
	if err := json.Unmarshal(summary, &of); err != nil {
		return false, fmt.Errorf("a summary of stream %d cannot be read: %w", stream, err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	kept, err = keep.do(ctx, c.client, call{
		[]string{lengthKey(stream), summaryKey(stream)}, []string{string(summary), strconv.FormatUint(of.Next, 10)},
	})[0].AsBool()
	if err != nil {
		return false, fmt.Errorf("keep the summary of stream %d: %w", stream, err)
	}
	return kept, nil
}

// Summary is the newest of a stream, or nil if there is none.
func (c *Client) Summary(ctx context.Context, stream int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	summary, err := c.client.Do(ctx, c.client.B().Get().Key(summaryKey(stream)).Build()).AsBytes()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the summary of stream %d: %w", stream, err)
	}
	return summary, nil
}
