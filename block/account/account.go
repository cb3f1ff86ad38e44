// Package account keeps the people who may sign in somewhere: a file with their names, roles
// and the hashes of their passwords, and what a session's signature covers.
//
// It knows neither what roles mean nor how one signs in; see package backoffice.
package account

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"loadstone/block/atomicfile"
)

// Role says what an account may do.
type Role string

// Names are roles for people, as in "editor or publisher".
func Names(roles []Role) string {
	names := make([]string, len(roles))
	for i, role := range roles {
		names[i] = string(role)
	}
	return strings.Join(names, " or ")
}

// Program is who wrote where no person did: no account has this name.
const Program = "api"

// MaxName bounds a name, in bytes.
const MaxName = 64

// Bounds of a password, in bytes: what is guessed over a network is shorter, and bcrypt takes
// no more than 72.
const (
	MinPassword = 12
	MaxPassword = 72
)

// largestCost bounds the cost of hashes in files: a minute of CPU for a guess would be an
// attack.
const largestCost = 15

// maxAccountsBytes bounds the file of accounts: some ten thousand of them.
const maxAccountsBytes = 1 << 20

// Account is somebody who may sign in.
type Account struct {
	Name string
	Role Role
	hash string // bcrypt's, of the password
}

// File is a file of accounts: one a line, NAME ROLE HASH.
type File struct {
	Path string
	// Roles are those that there are. Each may do what those before it may.
	Roles []Role
}

// Accounts are all accounts at one time.
type Accounts struct {
	all []Account // ascending by name
	// nobody is compared with the passwords of unknown names, which then take as long.
	nobody string
}

// Loading returns a function that loads the file at a path, for package follow.
func Loading(roles []Role) func(path string) (*Accounts, fs.FileInfo, error) {
	return func(path string) (*Accounts, fs.FileInfo, error) { return File{path, roles}.Load() }
}

// Load reads the file, and says which one that was.
func (f File) Load() (*Accounts, fs.FileInfo, error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, nil, fmt.Errorf("read the accounts: %w", err)
	}
	defer func() { _ = file.Close() }() // was only read
	info, err := file.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("read the accounts: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxAccountsBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the accounts: %w", err)
	}
	accounts, err := Parse(text, f.Roles)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return accounts, info, nil
}

// Parse reads what a file has.
func Parse(text []byte, roles []Role) (*Accounts, error) {
	if len(text) > maxAccountsBytes {
		return nil, fmt.Errorf("there are more than %d bytes of accounts", maxAccountsBytes)
	}
	accounts, most := &Accounts{}, bcrypt.MinCost
	for number, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if line == "" {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("line %d: write NAME ROLE HASH, as the command account add does", number+1)
		}
		account := Account{Name: fields[0], Role: Role(fields[1]), hash: fields[2]}
		hashCost, err := bcrypt.Cost([]byte(account.hash))
		if err != nil || hashCost > largestCost {
			err = errors.New("the third field is no hash of bcrypt: set the password with the command account add")
		}
		if err := errors.Join(account.check(roles), err); err != nil {
			return nil, fmt.Errorf("line %d: %w", number+1, err)
		}
		most = max(most, hashCost)
		if !accounts.add(account) {
			return nil, fmt.Errorf("line %d: there is a second %s: remove one", number+1, account.Name)
		}
	}
	accounts.nobody = nobodys(most)
	return accounts, nil
}

// check returns what is wrong with the name or the role.
func (a *Account) check(roles []Role) error {
	wrong := a.Name == "" || len(a.Name) > MaxName || a.Name == Program
	for i := range len(a.Name) {
		c := a.Name[i]
		wrong = wrong || (c < 'a' || c > 'z') && (c < '0' || c > '9') && (i == 0 || c != '.' && c != '-' && c != '_')
	}
	var name, role error
	if wrong {
		name = fmt.Errorf("the name is %.70q: write up to %d small letters, digits, and inside . - or _; %q is taken", a.Name, MaxName, Program)
	}
	if !slices.Contains(roles, a.Role) {
		role = fmt.Errorf("the role is %.70q: write %s", string(a.Role), Names(roles))
	}
	return errors.Join(name, role)
}

// place is where an account is, or belongs.
func (a *Accounts) place(name string) (at int, found bool) {
	return slices.BinarySearchFunc(a.all, name, func(x Account, name string) int { return strings.Compare(x.Name, name) })
}

// add reports false if there is one of the name.
func (a *Accounts) add(account Account) bool {
	at, found := a.place(account.Name)
	if !found {
		a.all = slices.Insert(a.all, at, account)
	}
	return !found
}

// All are the accounts, in ascending order of name.
func (a *Accounts) All() []Account { return slices.Clone(a.all) }

// Find returns the account with the name, nil if there is none.
func (a *Accounts) Find(name string) *Account {
	if at, found := a.place(name); found {
		return &a.all[at]
	}
	return nil
}

// Check returns the account whose name and password these are, nil if they are nobody's. It
// takes as long for a name that there is not.
func (a *Accounts) Check(name, password string) *Account {
	account, hash := a.Find(name), a.nobody
	if account != nil {
		hash = account.hash
	}
	if !matches(hash, password) {
		return nil
	}
	return account
}

// Sign returns a signature that is good as long as the account has this password.
func (a *Account) Sign(key []byte, text string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text + "\n" + a.hash))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Set adds an account to the file, which it makes if there is none, or gives one that
// is there another password and role. It reports whether there was one.
func (f File) Set(name string, role Role, password string) (there bool, err error) {
	account := Account{Name: name, Role: role}
	if err := account.check(f.Roles); err != nil {
		return false, err
	}
	if err := CheckLength(password); err != nil {
		return false, err
	}
	hash, err := hashed(password, Cost)
	if err != nil {
		return false, err
	}
	account.hash = hash
	err = f.change(func(a *Accounts) error {
		if there = !a.add(account); there {
			*a.Find(name) = account
		}
		return nil
	})
	return there, err
}

// Remove takes an account out of the file.
func (f File) Remove(name string) error {
	return f.change(func(a *Accounts) error {
		at, there := a.place(name)
		if !there {
			return fmt.Errorf("there is no account %.70q in %s", name, f.Path)
		}
		a.all = slices.Delete(a.all, at, at+1)
		return nil
	})
}

// change replaces the file, which two who change it at a time do not.
func (f File) change(with func(*Accounts) error) error {
	next, err := atomicfile.Create(f.Path) // locks
	if err != nil {
		return err
	}
	defer func() { _ = next.Discard() }() // after an error that is returned
	accounts, _, err := f.Load()
	if errors.Is(err, fs.ErrNotExist) {
		accounts, err = &Accounts{}, nil
	}
	if err != nil {
		return err
	}
	if err := with(accounts); err != nil {
		return err
	}
	var text bytes.Buffer
	for _, a := range accounts.all {
		fmt.Fprintln(&text, a.Name, a.Role, a.hash)
	}
	return next.Fill(text.Bytes(), 0o600)
}
