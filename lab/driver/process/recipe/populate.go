package recipe

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// populate makes the database and runs the scripts of
// /docker-entrypoint-initdb.d in the order of their names: *.sh is run if it is
// executable and otherwise read by a shell, *.sql and *.sql.gz go to psql, and
// the first that fails ends it.
func (p *postgres) populate(ctx context.Context) error {
	if p.db != "postgres" {
		create := Step{
			Command: p.psql("postgres", "--set", "db="+p.db),
			Stdin:   strings.NewReader(`SELECT 'CREATE DATABASE ' || quote_ident(:'db') WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'db') \gexec` + "\n"),
		}
		if err := p.step(ctx, create); err != nil {
			return fmt.Errorf("make its database %s: %w", p.db, err)
		}
	}
	dir, ok := p.mounted(postgresScripts)
	scripts := map[string]string{} // files by name
	var names []string
	if ok {
		entries, err := os.ReadDir(dir) // sorted
		if err != nil {
			return fmt.Errorf("read the volume mounted at %s: %w", postgresScripts, err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
			scripts[e.Name()] = filepath.Join(dir, e.Name())
		}
	}
	for _, v := range p.Service.Volumes { // files that are mounted one by one
		name, ok := below(filepath.Clean(v.Target), postgresScripts)
		if !ok || name == "" || strings.Contains(name, "/") {
			continue
		}
		if _, known := scripts[name]; !known {
			names = append(names, name)
		}
		scripts[name] = p.path(v.Target)
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		if err := p.script(ctx, name, scripts[name]); err != nil {
			return fmt.Errorf("run %s/%s: %w", postgresScripts, name, err)
		}
	}
	return nil
}

// psql is its command line, to read from its standard input.
func (p *postgres) psql(db string, more ...string) []string {
	return append([]string{
		p.Files["psql"], "--quiet", "--set", "ON_ERROR_STOP=1", "--no-psqlrc", "--no-password",
		"--username", p.user, "--dbname", db,
	}, more...)
}

// script runs one of them. Its text is read here, because the instance's user
// need not be able to read the file.
func (p *postgres) script(ctx context.Context, name, file string) error {
	switch {
	case strings.HasSuffix(name, ".sql"), strings.HasSuffix(name, ".sql.gz"):
		return p.sql(ctx, name, file)
	case strings.HasSuffix(name, ".sh"):
		return p.shell(ctx, name, file)
	default:
		p.Warnf("%s/%s is not run: only *.sql, *.sql.gz and *.sh are", postgresScripts, name)
		return nil
	}
}

func (p *postgres) sql(ctx context.Context, name, file string) (err error) {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	s := Step{Command: p.psql(p.db), Stdin: f}
	if strings.HasSuffix(name, ".gz") {
		unpacked, err := gzip.NewReader(f)
		if err != nil {
			return err
		}
		s.Stdin = unpacked
	}
	return p.step(ctx, s)
}

func (p *postgres) shell(ctx context.Context, name, file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	copied := filepath.Join(p.Dir, "scripts", name)
	mode, command := fs.FileMode(0o500), []string{copied}
	if info.Mode()&0o111 == 0 || !bytes.HasPrefix(text, []byte("#!")) {
		command = []string{"bash", copied}
	}
	if err := p.write(copied, text, mode); err != nil {
		return err
	}
	return p.step(ctx, Step{Command: command})
}
