package cli

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadstone/block/atomicfile"
	"loadstone/system/results/pagecache"
	"loadstone/system/results/pgstore"
	"loadstone/system/results/stores"
)

// secrets are the passwords of the full form, in files of two directories: the owner's
// is for jobs that write, service for what runs all the time.
type secrets struct{ owner, service string }

// The files. Each but the two of monitoring is its owner's alone.
func (s *secrets) ownerPassword() string   { return filepath.Join(s.owner, "password") }
func (s *secrets) ownerPgpass() string     { return filepath.Join(s.owner, "pgpass") }
func (s *secrets) readerPassword() string  { return filepath.Join(s.service, "password") }
func (s *secrets) readerPgpass() string    { return filepath.Join(s.service, "pgpass") }
func (s *secrets) redisPassword() string   { return filepath.Join(s.service, "redis") }
func (s *secrets) redisUsers() string      { return filepath.Join(s.service, "redis.acl") }
func (s *secrets) monitorPassword() string { return filepath.Join(s.service, "monitor") }

// Access bits: a group reads the password of monitoring, and anybody the hashes of
// passwords that nobody guesses.
const (
	secretMode  = 0o600
	monitorMode = 0o640
	hashMode    = 0o644
)

func (s *secrets) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.owner, "owner", "", "directory for the password of the database's owner")
	cmd.Flags().StringVar(&s.service, "service", "", "directory for the passwords of servers and exporters")
}

func (s *secrets) validate(command string) error {
	if s.owner == "" || s.service == "" {
		return usagef("%s: name the directories with --owner and --service", command)
	}
	return nil
}

func (a *app) secretsCommand() *cobra.Command {
	var s secrets
	cmd := &cobra.Command{
		Use:   "secrets",
		Short: "Generate the passwords of PostgreSQL and Redis, if there are none",
		Long: `Generate the passwords of PostgreSQL and Redis, if there are none. Existing ones are
left unchanged.

  OWNER/password, OWNER/pgpass       the owner of the database
  SERVICE/password, SERVICE/pgpass   the role ` + pgstore.Reader + `
  SERVICE/monitor                    the role ` + pgstore.Monitor + `
  SERVICE/redis                      Redis, for the user results
  SERVICE/redis.acl                  Redis's users, with hashes of their passwords

pgpass is in PostgreSQL's format, for PGPASSFILE. 'loadstone results roles' creates the
roles in the database.`,
		Example: `  loadstone results secrets --owner secrets/owner --service secrets/service`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := s.validate("results secrets"); err != nil {
				return err
			}
			made, err := s.ensure()
			return a.sayMade(s.owner+" and "+s.service, made, err)
		},
	}
	s.flags(cmd)
	return cmd
}

// ensure generates the passwords that are not there, and writes what follows from them.
func (s *secrets) ensure() (made bool, err error) {
	for _, dir := range []string{s.owner, s.service} {
		if err := os.MkdirAll(dir, 0o755); err != nil { // others read what they may
			return false, err
		}
	}
	passwords := map[string]string{}
	for _, path := range []string{s.ownerPassword(), s.readerPassword(), s.redisPassword(), s.monitorPassword()} {
		mode := os.FileMode(secretMode)
		if path == s.monitorPassword() {
			mode = monitorMode
		}
		password, fresh, err := ensurePassword(path, mode)
		if err != nil {
			return made, err
		}
		made, passwords[path] = made || fresh, password
	}
	return made, errors.Join(
		atomicfile.Write(s.ownerPgpass(), []byte("*:*:*:*:"+passwords[s.ownerPassword()]+"\n"), secretMode),
		atomicfile.Write(s.readerPgpass(), []byte("*:*:*:*:"+passwords[s.readerPassword()]+"\n"), secretMode),
		atomicfile.Write(s.redisUsers(), []byte(redisUsers("results", passwords[s.redisPassword()])), hashMode))
}

// ensurePassword is the password in a file, a new one if there is no file.
func ensurePassword(path string, mode os.FileMode) (password string, made bool, err error) {
	password, err = readPassword(path)
	if errors.Is(err, fs.ErrNotExist) {
		password = rand.Text()
		return password, true, atomicfile.Write(path, []byte(password+"\n"), mode)
	}
	return password, false, err
}

// redisUsers is the file of Redis's users: one with a password may do all that a service
// does, and who gives none may see how Redis is, and no value.
func redisUsers(user, password string) string {
	return fmt.Sprintf(`user default on nopass -@all +ping +info +config|get +client|setname +latency|latest +slowlog|len
user %s on #%x ~* &* +@all -@admin
`, user, sha256.Sum256([]byte(password)))
}

// readPassword is the content of a file without the end of its line.
func readPassword(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	password := strings.TrimSpace(string(text))
	if password == "" {
		return "", fmt.Errorf("%s holds no password; remove it, or write one into it", path)
	}
	return password, nil
}

// redisPasswordFile is a flag, see redisFlags.
const redisPasswordFile = "redis-password-file"

// redisFlags are the address of a Redis and the file of its password, which
// redisPassword puts into the address.
func redisFlags(fl *pflag.FlagSet, address *string, usage string) {
	fl.StringVar(address, "redis", *address, usage+": "+pagecache.RedisForm)
	fl.String(redisPasswordFile, "", "file with the password of Redis, if it is not in the address")
}

func redisPassword(flags *pflag.FlagSet) error {
	file := flags.Lookup(redisPasswordFile)
	if file == nil || file.Value.String() == "" {
		return nil
	}
	password, err := readPassword(file.Value.String())
	if err != nil {
		return usagef("--%s: %w", redisPasswordFile, err)
	}
	u, err := url.Parse(flags.Lookup("redis").Value.String())
	if err != nil || u.Host == "" {
		return nil //nolint:nilerr // who takes addresses says better what is wrong, and shows no password
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return flags.Set("redis", u.String())
}

func (a *app) rolesCommand() *cobra.Command {
	var s secrets
	var store string
	cmd := &cobra.Command{
		Use:   "roles",
		Short: "Create the roles of servers and exporters in PostgreSQL",
		Long: `Create the roles of servers and exporters in PostgreSQL, with the passwords that
'loadstone results secrets' generated, and set those of existing ones. ` + pgstore.Reader + `
may read the tables and do nothing else; ` + pgstore.Monitor + ` sees the server's
statistics and no table.

If the database does not accept the owner's password yet, the one in the variable
POSTGRES_PASSWORD is tried, and replaced.`,
		Example: `  loadstone results roles --store postgres://postgres@db/results --owner secrets/owner --service secrets/service`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.validate("results roles"); err != nil {
				return err
			}
			name, err := storeName(stores.Parse, store, "--store")
			if err == nil && name.Kind != stores.Postgres {
				err = usagef("--store %s: only PostgreSQL has roles; write postgres://USER@HOST/DATABASE", store)
			}
			if err != nil {
				return err
			}
			return a.setRoles(cmd.Context(), &s, name)
		},
	}
	s.flags(cmd)
	cmd.Flags().StringVar(&store, "store", "", "the database, with its owner: postgres://USER@HOST/DATABASE")
	return cmd
}

func (a *app) setRoles(ctx context.Context, s *secrets, store stores.Name) error {
	roles := pgstore.Roles{Before: a.Getenv("POSTGRES_PASSWORD")}
	for path, to := range map[string]*string{s.ownerPassword(): &roles.Owner, s.readerPassword(): &roles.Reader, s.monitorPassword(): &roles.Monitor} {
		var err error
		if *to, err = readPassword(path); err != nil {
			return err
		}
	}
	renewed, err := roles.Set(ctx, store.Target)
	if errors.Is(err, pgstore.ErrPassword) {
		return fmt.Errorf("%w; start once with the password that the database has in POSTGRES_PASSWORD, or set the one in %s with ALTER ROLE", err, s.ownerPassword())
	}
	if err != nil {
		return err
	}
	if renewed {
		fmt.Fprintf(a.Stdout, "the owner's password, which was that of POSTGRES_PASSWORD, is now the one in %s\n", s.ownerPassword())
	}
	fmt.Fprintf(a.Stdout, "%s has the roles %s and %s\n", store, pgstore.Reader, pgstore.Monitor)
	return nil
}
