package reconcile

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// Config says which chat is checked, and by whom. Start from DefaultConfig.
type Config struct {
	// URL is the server's, http://HOST:PORT.
	URL string
	// Streams are those that are checked. Viewers are spread over them, one after the other.
	Streams []int64
	// Viewers is how many look on. The first Senders of them also say something.
	Viewers, Senders int
	// Rate is how many messages a second they say together, and For how long.
	Rate float64
	For  time.Duration
	// Settle is how long all viewers may take to join, and the last message to reach the last of them.
	Settle time.Duration
	// MostSkipped is how many messages may be announced to viewers as skipped, of all together; a number
	// below 0 is for any.
	MostSkipped int64
	// Analysed is whether viewers are to be told what the analysis has made of the streams.
	Analysed bool
	// Turns is whether another epoch may begin, see ledger.MayTurn.
	Turns bool
	// Kept has all messages for good, and is compared with the log, which may have them only for a while. It may
	// be nil.
	Kept Kept
	// Stay is whether Run goes on serving the count until its context ends.
	Stay bool
	// AdminListen is the address for metrics, host:port.
	AdminListen string
}

// DefaultConfig has 20 viewers of one stream, each of whom says something every two seconds.
func DefaultConfig() Config {
	return Config{
		Streams: []int64{1}, Viewers: 20, Senders: 20, Rate: 10, For: 30 * time.Second,
		Settle: 30 * time.Second, MostSkipped: -1, AdminListen: "127.0.0.1:9094",
	}
}

// What is kept of each message is some 200 bytes, and of each viewer 20 KiB.
const (
	mostMessages = 2_000_000
	mostViewers  = 20_000
)

// Validate returns all problems, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if !isHost(c.URL) {
		errs = append(errs, fmt.Errorf("the chat is at %q: write http://HOST:PORT", c.URL))
	}
	if len(c.Streams) == 0 || slices.Min(c.Streams) < 1 {
		errs = append(errs, fmt.Errorf("streams %v are checked: write one or more, of 1 or more", c.Streams))
	}
	if c.Viewers < max(1, len(c.Streams)) || c.Viewers > mostViewers {
		errs = append(errs, fmt.Errorf("%d viewers: write one for each stream to %d", c.Viewers, mostViewers))
	}
	if c.Senders < 1 || c.Senders > c.Viewers {
		errs = append(errs, fmt.Errorf("%d of %d viewers say something: write 1 to all of them", c.Senders, c.Viewers))
	}
	if c.For <= 0 || c.Settle <= 0 {
		errs = append(errs, fmt.Errorf("they talk for %v, and %v later all is seen: write times above 0", c.For, c.Settle))
	}
	if !(c.Rate > 0) || c.Rate*c.For.Seconds() > mostMessages {
		errs = append(errs, fmt.Errorf("%v messages a second for %v: write a rate above 0, and at most %d in all", c.Rate, c.For, mostMessages))
	}
	return errors.Join(errs...)
}

func isHost(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.Path == ""
}
