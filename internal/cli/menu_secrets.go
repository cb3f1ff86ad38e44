package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadstone/block/account"
	"loadstone/block/atomicfile"
	"loadstone/system/menu/admin"
)

// menuRedisUser is who servers and proxies are in Redis.
const menuRedisUser = "menu"

func (a *app) menuSecretsCommand() *cobra.Command {
	return a.dirSecretsCommand("menu", `  DIR/password, DIR/pgpass   the owner of the PostgreSQL database
  DIR/redis                  Redis, for the user menu
  DIR/redis.acl              Redis's users, with hashes of their passwords
  DIR/token                  who may change menus, for --token-file of 'menu serve'
  DIR/session                what signs sessions, for --session-key-file
  DIR/accounts               who may edit menus, for --accounts: the account admin, whose
                             password is in DIR/admin`, menuSecrets)
}

// dirSecretsCommand has ensure generate the passwords of a system in one directory.
func (a *app) dirSecretsCommand(system, files string, ensure func(dir string) (made bool, err error)) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "secrets",
		Short: "Generate the passwords of the full form, if there are none",
		Long: `Generate the passwords of the full form, if there are none. Existing ones are left
unchanged.

` + files,
		Example: "  loadstone " + system + " secrets --dir secrets",
		RunE: func(*cobra.Command, []string) error {
			if dir == "" {
				return usagef("%s secrets: name the directory with --dir", system)
			}
			made, err := ensure(dir)
			return a.sayMade(dir, made, err)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory for the passwords")
	return cmd
}

// sayMade says what came of generating passwords.
func (a *app) sayMade(where string, made bool, err error) error {
	if err != nil {
		return err
	}
	what := "are there already"
	if made {
		what = "were generated"
	}
	fmt.Fprintf(a.Stdout, "the passwords in %s %s\n", where, what)
	return nil
}

// menuSecrets generates the passwords that are not there, and writes what follows from them.
func menuSecrets(dir string) (made bool, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { // Redis reads its hashes
		return false, err
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	passwords := map[string]string{}
	for _, name := range []string{"password", "redis", "token", "session", "admin"} {
		password, fresh, err := ensurePassword(file(name), secretMode)
		if err != nil {
			return made, err
		}
		made, passwords[name] = made || fresh, password
	}
	if err := ensureAdmin(account.File{Path: file("accounts"), Roles: admin.Roles()}, admin.Publisher, passwords["admin"]); err != nil {
		return made, err
	}
	return made, cmp.Or(
		atomicfile.Write(file("pgpass"), []byte("*:*:*:*:"+passwords["password"]+"\n"), secretMode),
		atomicfile.Write(file("redis.acl"), []byte(redisUsers(menuRedisUser, passwords["redis"])), hashMode))
}

// ensureAdmin makes a file of accounts with one, admin, if there is none.
func ensureAdmin(f account.File, role account.Role, password string) error {
	_, err := os.Stat(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = f.Set("admin", role, password)
	}
	return err
}

// secretFiles are flags that name the file of a secret, in place of the secret's own flag.
var secretFiles = []string{"token", "session-key", "oidc-secret", "summary-key", "redis-password", "database-password"}

// secretFlags are a secret and the file that it may be in, which secretsFromFiles reads. The
// name is one of secretFiles.
func secretFlags(fl *pflag.FlagSet, name string, secret *string, usage string) {
	fl.StringVar(secret, name, "", usage+"; set it in the environment, for every user of the host sees flags")
	fl.String(name+"-file", "", "file with the "+name+", in place of --"+name)
}

func secretsFromFiles(flags *pflag.FlagSet) error {
	for _, name := range secretFiles {
		file := flags.Lookup(name + "-file")
		if file == nil || file.Value.String() == "" || flags.Lookup(name) == nil { // redisPassword has files of its own
			continue
		}
		secret, err := readPassword(file.Value.String())
		if err != nil {
			return usagef("--%s-file: %w", name, err)
		}
		if err := flags.Set(name, secret); err != nil {
			return err
		}
	}
	return nil
}
