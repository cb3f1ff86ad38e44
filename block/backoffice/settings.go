package backoffice

import (
	"crypto/rand"
	"fmt"
	"time"

	"loadstone/block/account"
	"loadstone/block/follow"
	"loadstone/block/forwarded"
	"loadstone/block/service"
)

// Settings are what an operator says about people who sign in at a service.
type Settings struct {
	// Accounts is the file of those who may, see account.File, which is read again when it
	// changes; empty if there is to be no office.
	Accounts string
	// SessionKey signs their sessions, at least MinKeyBytes, the same for all servers behind
	// one address; empty for one that ends with the server.
	SessionKey string
	// Proxies are whose word counts about where those who sign in are.
	Proxies forwarded.Proxies
}

// Check returns what is wrong with the settings, or nil.
func (s Settings) Check() error {
	if n := len(s.SessionKey); n > 0 && n < MinKeyBytes {
		return fmt.Errorf("the key of sessions has %d characters: write at least %d", n, MinKeyBytes)
	}
	return nil
}

// lookAtAccounts is how soon an account that was removed is signed out, at the latest.
const lookAtAccounts = time.Second

// Office has the service follow the file of accounts, and returns the part of a Config that follows
// from the settings and the service.
func (s Settings) Office(to *service.Service, roles []account.Role) (Config, error) {
	accounts, err := follow.Open(s.Accounts, follow.Config[account.Accounts]{
		Interval: lookAtAccounts, Load: account.Loading(roles),
		Switched: func(_, now *account.Accounts) {
			to.Logger.Info("accounts read again", "accounts", len(now.All()))
		},
		Refused: func(err error) {
			to.Logger.Error("the accounts cannot be read; those before still count", "error", err)
		},
	})
	if err != nil {
		return Config{}, err
	}
	to.Add(service.Component{Name: "accounts", Run: accounts.Run})
	c := Config{Accounts: accounts.Current, Key: s.SessionKey, Proxies: s.Proxies, Logger: to.Logger, Registerer: to.Registry}
	if c.Key == "" {
		c.Key = rand.Text()
	}
	return c, nil
}
