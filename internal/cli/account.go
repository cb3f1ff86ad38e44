package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"loadstone/block/account"
	"loadstone/block/backoffice"
	"loadstone/block/forwarded"
)

// accounts are the commands about the people who may sign in at a system's /admin.
type accounts struct {
	*app

	system string
	does   string // what they do, as in "edit menus"
	roles  string // what each role does, in sentences
	file   account.File
}

func (a *accounts) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "account",
		Short: "Who may " + a.does + " at /admin: add, remove, list",
		Long: fmt.Sprintf(`Who may %s at /admin of '%s serve --accounts FILE'. %s
Servers notice within a second that the file has changed: who was removed, or has another
password, is signed out.`, a.does, a.system, a.roles),
		Example: a.example("add ada --accounts accounts --role " + string(a.file.Roles[len(a.file.Roles)-1])),
	}
	cmd.PersistentFlags().StringVar(&a.file.Path, "accounts", "", "file of the accounts")
	cmd.AddCommand(a.addCommand(), a.removeCommand(), a.listCommand())
	cmd.RunE = needsCommand
	return cmd
}

func (a *accounts) example(command string) string {
	return "  loadstone " + a.system + " account " + command
}

// named is a command's RunE that needs the file's name.
func (a *accounts) named(run func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if a.file.Path == "" {
			return usagef("name the file of the accounts with --accounts")
		}
		return run(cmd, args)
	}
}

func (a *accounts) addCommand() *cobra.Command {
	role := string(a.file.Roles[0])
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add an account, or give one another password and role",
		Long: fmt.Sprintf(`Add an account, or give one that is there another password and role. The password, %d
to %d bytes, is read from the terminal, or else is the first line of the standard input.`, account.MinPassword, account.MaxPassword),
		Example: a.example("add ada --accounts accounts --role "+string(a.file.Roles[len(a.file.Roles)-1])) + "\n" +
			a.example("add ben --accounts accounts < password"),
		Args: cobra.ExactArgs(1),
		RunE: a.named(func(cmd *cobra.Command, args []string) error {
			password, err := a.askPassword(cmd.Context(), "Password of "+args[0]+": ")
			if err != nil {
				return fmt.Errorf("read the password: %w", err)
			}
			there, err := a.file.Set(args[0], account.Role(role), password)
			if err != nil {
				return usageError{err}
			}
			what := "was added"
			if there {
				what = "has the new password"
			}
			fmt.Fprintf(a.Stdout, "%s, %s, %s\n", args[0], role, what)
			return nil
		}),
	}
	cmd.Flags().StringVar(&role, "role", role, account.Names(a.file.Roles))
	return cmd
}

func (a *accounts) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove an account, and sign it out",
		Example: a.example("remove ben --accounts accounts"),
		Args:    cobra.ExactArgs(1),
		RunE: a.named(func(_ *cobra.Command, args []string) error {
			if err := a.file.Remove(args[0]); err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "%s was removed\n", args[0])
			return nil
		}),
	}
}

func (a *accounts) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the accounts and their roles",
		Example: a.example("list --accounts accounts"),
		Args:    cobra.NoArgs,
		RunE: a.named(func(*cobra.Command, []string) error {
			all, _, err := a.file.Load()
			if err != nil {
				return err
			}
			for _, one := range all.All() {
				fmt.Fprintln(a.Stdout, one.Name, one.Role)
			}
			return nil
		}),
	}
}

// officeFlags are those about who signs in at /admin of a system's server, to do what does says; proxies are
// read by parseProxies.
func officeFlags(fl *pflag.FlagSet, s *backoffice.Settings, proxies *[]string, system, does string) {
	fl.StringVar(&s.Accounts, "accounts", "", "file of those who may "+does+" at /admin, see '"+system+" account'; without one there is no /admin")
	secretFlags(fl, "session-key", &s.SessionKey, "what sessions at /admin are signed with, the same for all servers behind one address; without one they end with the server")
	fl.StringSliceVar(proxies, "proxy", nil, "address or prefix of a load balancer whose X-Forwarded-For is believed about who signs in")
}

func parseProxies(texts []string) (forwarded.Proxies, error) {
	proxies, err := forwarded.Parse(texts...)
	if err != nil {
		err = usagef("--proxy: %w", err)
	}
	return proxies, err
}

// askPassword reads a line from the standard input; from a terminal, without showing it.
func (a *app) askPassword(ctx context.Context, prompt string) (string, error) {
	if file, ok := a.Stdin.(*os.File); ok {
		fd := int(file.Fd())
		if shown, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil { // else it is none
			hidden := *shown
			hidden.Lflag &^= unix.ECHO
			if err := unix.IoctlSetTermios(fd, unix.TCSETSF, &hidden); err != nil {
				return "", err
			}
			defer func() {
				_ = unix.IoctlSetTermios(fd, unix.TCSETS, shown)
				fmt.Fprintln(a.Stderr)
			}()
			fmt.Fprint(a.Stderr, prompt)
		}
	}
	type line struct {
		text string
		err  error
	}
	typed := make(chan line, 1)
	go func() { // who interrupts does not wait for it, and the process ends
		text, err := bufio.NewReader(io.LimitReader(a.Stdin, 4<<10)).ReadString('\n')
		typed <- line{strings.TrimRight(text, "\r\n"), err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case got := <-typed:
		if errors.Is(got.err, io.EOF) {
			got.err = nil
		}
		return got.text, got.err
	}
}
