package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// MinCost is the least cost that a hash can have, for tests, and Cost that of others: about a
// quarter of a second.
const (
	MinCost = bcrypt.MinCost
	Cost    = 12
)

// Passwords makes and checks hashes of passwords for who keeps accounts elsewhere than in a
// File. It does a few at a time, see Turns, and is safe for concurrent use.
type Passwords struct {
	cost int
	// nobody is compared with the passwords of unknown accounts, which then take as long.
	nobody string
	turns  Turns
}

// NewPasswords makes hashes of a cost from MinCost to largestCost.
func NewPasswords(cost int) (*Passwords, error) {
	if cost < MinCost || cost > largestCost {
		return nil, fmt.Errorf("the cost of a password's hash is %d: write %d to %d", cost, MinCost, largestCost)
	}
	return &Passwords{cost, nobodys(cost), NewTurns()}, nil
}

// CheckLength says what is wrong with the length of a new password, or nothing.
func CheckLength(password string) error {
	if n := len(password); n < MinPassword || n > MaxPassword {
		return fmt.Errorf("the password has %d bytes: write %d to %d", n, MinPassword, MaxPassword)
	}
	return nil
}

// Hash makes a password's hash. The error is ErrBusy, or CheckLength's.
func (p *Passwords) Hash(ctx context.Context, password string) (hash string, err error) {
	if err := CheckLength(password); err != nil {
		return "", err
	}
	busy := p.turns.Do(ctx, func() { hash, err = hashed(password, p.cost) })
	return hash, errors.Join(busy, err)
}

// Match reports whether a hash is the password's. An empty hash is nobody's, and takes as
// long. The error is ErrBusy.
func (p *Passwords) Match(ctx context.Context, hash, password string) (match bool, err error) {
	with := hash
	if with == "" {
		with = p.nobody
	}
	err = p.turns.Do(ctx, func() { match = matches(with, password) })
	return match && hash != "", err
}

// nobodys is a hash of which nobody knows a password. It takes as long to check as others of
// its cost, and no time to make: a server starts with it.
func nobodys(cost int) string {
	const saltAndHash = 22 + 31
	return fmt.Sprintf("$2a$%02d$%s", cost, strings.Repeat("x", saltAndHash))
}

func hashed(password string, cost int) (string, error) {
	hash, err := bcrypt.GenerateFromPassword([]byte(password), cost)
	return string(hash), err
}

func matches(hash, password string) bool {
	return bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil
}

// Checking a password takes a core for a quarter of a second: few are checked at a time, and
// a few more may wait, not for longer than hashTimeout.
const (
	hashing     = 2
	mayWait     = 16
	hashTimeout = 4 * time.Second
)

// ErrBusy is that too many passwords are being checked. It passes.
var ErrBusy = errors.New("too many passwords are being checked")

// Turns lets few do at a time what takes long.
type Turns struct{ waiting, working chan struct{} }

// NewTurns is for as many as the machine can bear beside other work.
func NewTurns() Turns {
	return Turns{make(chan struct{}, hashing+mayWait), make(chan struct{}, hashing)}
}

// Do calls f when it is its turn; if that does not come, the error is ErrBusy.
func (t Turns) Do(ctx context.Context, f func()) error {
	select {
	case t.waiting <- struct{}{}:
	default:
		return ErrBusy
	}
	defer func() { <-t.waiting }()
	ctx, cancel := context.WithTimeout(ctx, hashTimeout)
	defer cancel()
	select {
	case t.working <- struct{}{}:
	case <-ctx.Done():
		return ErrBusy
	}
	defer func() { <-t.working }()
	f()
	return nil
}
