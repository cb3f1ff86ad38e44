package chat

import (
	"crypto/rand"
	"net/url"
	"slices"
	"time"
)

// Role is what a user may do.
type Role string

// All roles. Each may do what those before it may.
const (
	// Guest has not signed up: it says things under the name that it chose.
	Guest Role = ""
	// Member has signed up, and follows hosts.
	Member Role = "member"
	// Host starts streams, and ends its own.
	Host Role = "host"
	// Admin may do in anybody's stream what its host may.
	Admin Role = "admin"
)

// Roles are those that users have who signed up.
func Roles() []Role { return []Role{Member, Host, Admin} }

// May reports whether the role is the needed one or more.
func (r Role) May(needed Role) bool {
	all := append([]Role{Guest}, Roles()...)
	return slices.Index(all, r) >= slices.Index(all, needed)
}

// known reports whether there is such a role.
func (r Role) known() bool { return r == Guest || slices.Contains(Roles(), r) }

// User is who a token is about.
type User struct {
	// ID is 1 to MaxID letters, digits, dots, dashes and underscores.
	ID   string
	Name string
	Role Role
	// Session is that of who has signed up: its tokens are good as long as it is there.
	Session string
	// Until is when the token ends.
	Until time.Time
}

// Hosts reports whether the user may do in a stream what its host may.
func (u *User) Hosts(s *Stream) bool {
	return u.Role == Admin || u.Role == Host && s.HostID == u.ID && u.ID != ""
}

// Relation is what a user is to a host.
type Relation struct {
	Follows    bool `json:"follows"`
	Subscribes bool `json:"subscribes"`
}

// Prefixes of ids: of users who have not signed up, and of those who have.
const guestPrefix, userPrefix = "guest-", "user-"

// NewGuest makes a user that nobody else is.
func NewGuest(name string) (User, error) {
	return User{ID: guestPrefix + rand.Text(), Name: name}, CheckName(name)
}

// NewUserID makes the id of somebody who signs up.
func NewUserID() string { return userPrefix + rand.Text() }

// CheckPicture checks the address of a user's picture: https, or empty for none.
func CheckPicture(address string) error {
	const longest = 500
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || len(address) > longest || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.String() != address {
		return ErrPicture
	}
	return nil
}
