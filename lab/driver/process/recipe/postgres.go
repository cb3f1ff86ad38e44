package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	postgresData    = "/var/lib/postgresql/data"
	postgresScripts = "/docker-entrypoint-initdb.d"
	// socketName is added to a directory to get a server's socket; the kernel
	// takes 107 bytes in all.
	socketName    = "/.s.PGSQL.65535"
	longestSocket = 107
)

// postgres is one start of PostgreSQL.
type postgres struct {
	*Instance

	user, password, db string
	auth               string // of connections over TCP
	data, run          string // directories
	args               []string
	env                map[string]string
}

// startPostgres has the official image's contract: POSTGRES_USER,
// POSTGRES_PASSWORD and POSTGRES_DB (or *_FILE), POSTGRES_INITDB_ARGS,
// POSTGRES_HOST_AUTH_METHOD, PGDATA and /docker-entrypoint-initdb.d. What it
// prepares, it prepares in an empty data directory only.
//
// It is stricter in one thing: the image lets connections from 127.0.0.1 in
// without a password, which inside a container are nobody else's; here every
// connection comes from there, so each needs the password. Local sockets are
// trusted as in the image, and lie in a directory that only the instance's user
// may enter. Where no LANG is set, the locale is C.UTF-8: the image's en_US.utf8
// is not on every machine.
//
// A PostgreSQL that is killed leaves about a megabyte in /dev/shm, which the
// next start with the same data removes. Keeping that in files instead
// (dynamic_shared_memory_type=mmap) would leave nothing, but parallel queries
// would then write to the disk, which is not what is to be measured.
func startPostgres(ctx context.Context, in *Instance) (*Process, error) {
	p := &postgres{Instance: in}
	if err := p.configure(); err != nil {
		return nil, err
	}
	if err := p.directories(); err != nil {
		return nil, err
	}
	marker := p.data + ".initialising"
	if err := errors.Join(p.restart(marker), p.unlock()); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(p.data, "PG_VERSION")); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(marker, nil, 0o600); err != nil {
			return nil, err
		}
		if err := p.initialise(ctx); err != nil {
			return nil, err
		}
		if err := os.Remove(marker); err != nil {
			return nil, err
		}
	}
	command := append([]string{p.Files["postgres"], "-D", p.data}, p.args...)
	command = append(command, "-c", "listen_addresses="+p.Host, "-c", "unix_socket_directories="+p.run) // the last of a name counts
	return &Process{Command: command, Env: p.env}, nil
}

// configure reads the environment and the arguments.
func (p *postgres) configure() error {
	for name, to := range map[string]*string{"POSTGRES_USER": &p.user, "POSTGRES_PASSWORD": &p.password, "POSTGRES_DB": &p.db} {
		var err error
		if *to, err = p.setting(name); err != nil {
			return err
		}
	}
	p.user = cmp.Or(p.user, "postgres")
	p.db = cmp.Or(p.db, p.user)
	p.auth = cmp.Or(p.Service.Environment["POSTGRES_HOST_AUTH_METHOD"], "scram-sha-256")
	args, err := p.arguments([]string{"postgres", "postmaster"})
	if err != nil {
		return err
	}
	if p.args, err = p.ownFiles(args); err != nil {
		return err
	}
	p.data, p.run = p.path(cmp.Or(p.Service.Environment["PGDATA"], postgresData)), filepath.Join(p.Dir, "run")
	if len(p.run)+len(socketName) > longestSocket {
		return fmt.Errorf("the directory for its socket, %s, is too long for the kernel; set TMPDIR to a shorter one", p.run)
	}
	p.env = map[string]string{
		"PATH": filepath.Dir(p.Files["postgres"]) + ":" + p.Path, "PGDATA": p.data, "PGHOST": p.run, "PGPORT": port(args),
	}
	if p.Service.Environment["LANG"] == "" {
		p.env["LANG"] = "C.UTF-8"
	}
	return nil
}

// port is the one that the arguments of postgres name, 5432 if they do not.
func port(args []string) string {
	p := "5432"
	for i, arg := range args {
		for _, name := range []string{"port=", "--port=", "-cport=", "-p"} {
			if value, ok := strings.CutPrefix(arg, name); ok && value != "" {
				p = value
			}
		}
		if arg == "-p" && i+1 < len(args) {
			p = args[i+1]
		}
	}
	return p
}

// ownFiles translates the settings that name files and gives the instance a
// copy of each, because its user need not be able to read the original.
func (p *postgres) ownFiles(args []string) ([]string, error) {
	args = p.pathFlags(args)
	for i, arg := range args {
		name, file, _ := strings.Cut(arg, "=")
		name = strings.TrimLeft(strings.TrimPrefix(name, "-c"), "-")
		if name != "config_file" && name != "hba_file" && name != "ident_file" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read its %s: %w", name, err)
		}
		copied := filepath.Join(p.Dir, name)
		if err := p.write(copied, text, 0o600); err != nil {
			return nil, err
		}
		args[i] = strings.TrimSuffix(arg, file) + copied
	}
	return args, nil
}

// directories makes those of the data and the socket the instance's user's.
func (p *postgres) directories() error {
	for _, dir := range []string{p.data, p.run} {
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := p.enterable(dir); err != nil {
			return err
		}
		if os.Geteuid() != 0 {
			continue
		}
		if err := p.ownAll(dir); err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o700); err != nil { // postgres refuses one that others may read
			return err
		}
	}
	return nil
}

// ownAll gives a directory with all that is in it to the instance's user. It
// does not leave the directory, whatever links its user has put there.
func (p *postgres) ownAll(dir string) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(name, p.UID, p.GID)
	})
}

// enterable says which directory above dir the instance's user may not enter,
// which would otherwise come out as initdb's "could not access".
func (p *postgres) enterable(dir string) error {
	for up := filepath.Dir(dir); ; up = filepath.Dir(up) {
		info, err := os.Stat(up)
		if err != nil {
			return err
		}
		needed := fs.FileMode(0o001)
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) == p.UID {
			needed = 0o100
		} else if ok && int(stat.Gid) == p.GID {
			needed = 0o010
		}
		if p.UID != 0 && info.Mode()&needed == 0 {
			return fmt.Errorf("its data is in %s, but PostgreSQL, which does not run as root, runs as the user %s, which has no access to %s; put the run elsewhere, or allow access with `chmod a+x %s`", dir, p.Service.User, up, up)
		}
		if up == filepath.Dir(up) {
			return nil
		}
	}
}

// restart empties a data directory whose initialisation was cut off.
func (p *postgres) restart(marker string) error {
	if _, err := os.Stat(marker); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	entries, err := os.ReadDir(p.data)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(p.data, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// unlock removes the lock of a server that is gone. PostgreSQL does that itself
// unless there is a process of that number, which after a kill may be another's,
// or one that ended and that nobody has waited for. In a container it never
// meets either. A server that lives works in the data directory.
func (p *postgres) unlock() error {
	file := filepath.Join(p.data, "postmaster.pid")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	pid, _, _ := strings.Cut(string(text), "\n")
	data, err := filepath.EvalSymlinks(p.data)
	if err != nil {
		return err
	}
	if cwd, err := os.Readlink(filepath.Join("/proc", strings.TrimSpace(pid), "cwd")); err == nil && cwd == data {
		return fmt.Errorf("its data directory %s is in use by process %s; stop that first", data, pid)
	}
	return os.Remove(file)
}

// initialise makes the cluster, the user, the database and what the scripts
// make, with a server that nobody can reach over TCP.
func (p *postgres) initialise(ctx context.Context) error {
	if p.password == "" && p.auth != "trust" {
		return errors.New("its data directory is empty and POSTGRES_PASSWORD is not set; set a password, or POSTGRES_HOST_AUTH_METHOD=trust to allow access without one")
	}
	if err := p.initdb(ctx); err != nil {
		return fmt.Errorf("make its data directory: %w", err)
	}
	options := append([]string{}, p.args...)
	options = append(options, "-c", "listen_addresses=", "-c", "unix_socket_directories="+p.run)
	for i := range options {
		options[i] = "'" + strings.ReplaceAll(options[i], "'", `'\''`) + "'" // pg_ctl hands them to a shell
	}
	control := func(args ...string) error {
		return p.step(ctx, Step{Command: append([]string{p.Files["pg_ctl"], "-D", p.data, "-w", "-t", "300"}, args...)})
	}
	if err := control("-o", strings.Join(options, " "), "start"); err != nil {
		return fmt.Errorf("start it for initialisation: %w", err)
	}
	if err := p.populate(ctx); err != nil {
		return errors.Join(err, control("-m", "immediate", "stop"))
	}
	if err := control("-m", "fast", "stop"); err != nil {
		return fmt.Errorf("stop it after initialisation: %w", err)
	}
	return nil
}

func (p *postgres) initdb(ctx context.Context) error {
	more, err := p.setting("POSTGRES_INITDB_ARGS")
	if err != nil {
		return err
	}
	command := []string{
		p.Files["initdb"], "-D", p.data, "--username=" + p.user, "--encoding=UTF8",
		"--auth-local=trust", "--auth-host=" + p.auth,
	}
	if p.password != "" {
		file := filepath.Join(p.Dir, "password")
		if err := p.write(file, []byte(p.password+"\n"), 0o600); err != nil {
			return err
		}
		defer func() { _ = os.Remove(file) }() // the directory goes as well
		command = append(command, "--pwfile="+file)
	}
	if wal := p.Service.Environment["POSTGRES_INITDB_WALDIR"]; wal != "" {
		command = append(command, "--waldir="+p.path(wal))
	}
	if err := p.step(ctx, Step{Command: append(command, strings.Fields(more)...)}); err != nil {
		return err
	}
	hba, err := os.OpenFile(filepath.Join(p.data, "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(hba, "\nhost all all all %s\n", p.auth) //nolint:dupword // all databases, users and addresses
	return errors.Join(err, hba.Close())
}

// step runs a command with the environment that the server will have.
func (p *postgres) step(ctx context.Context, s Step) error {
	env := maps.Clone(p.env)
	maps.Copy(env, map[string]string{"POSTGRES_USER": p.user, "POSTGRES_DB": p.db, "POSTGRES_PASSWORD": p.password})
	maps.Copy(env, s.Env)
	s.Env = env
	return p.Run(ctx, s)
}
