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
	"golang.org/x/sys/unix"

	"loadstone/system/menu/admin"
)

func (a *app) menuAccountCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "account",
		Short: "Who may edit menus at /admin: add, remove, list",
		Long: `Who may edit menus at /admin of 'menu serve --accounts FILE'. An editor writes drafts, a
publisher publishes them, too. Servers notice within a second that the file has changed:
who was removed, or has another password, is signed out.`,
		Example: `  loadstone menu account add ada --accounts accounts --role publisher`,
	}
	var file string
	cmd.PersistentFlags().StringVar(&file, "accounts", "", "file of the accounts")
	cmd.AddCommand(a.accountAddCommand(&file), a.accountRemoveCommand(&file), a.accountListCommand(&file))
	cmd.RunE = needsCommand
	return cmd
}

var errNoAccounts = errors.New("name the file of the accounts with --accounts")

func (a *app) accountAddCommand(file *string) *cobra.Command {
	role := string(admin.Editor)
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add an account, or give one another password and role",
		Long: fmt.Sprintf(`Add an account, or give one that is there another password and role. The password, %d
to %d bytes, is read from the terminal, or else is the first line of the standard input.`, admin.MinPassword, admin.MaxPassword),
		Example: `  loadstone menu account add ada --accounts accounts --role publisher
  loadstone menu account add ben --accounts accounts < password`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if *file == "" {
				return usageError{errNoAccounts}
			}
			password, err := a.askPassword(cmd.Context(), "Password of "+args[0]+": ")
			if err != nil {
				return fmt.Errorf("read the password: %w", err)
			}
			there, err := admin.SetAccount(*file, args[0], admin.Role(role), password)
			if err != nil {
				return usageError{err}
			}
			what := "was added"
			if there {
				what = "has the new password"
			}
			fmt.Fprintf(a.Stdout, "%s, %s, %s\n", args[0], role, what)
			return nil
		},
	}
	cmd.Flags().StringVar(&role, "role", role, fmt.Sprintf("%s, or %s, who may publish, too", admin.Editor, admin.Publisher))
	return cmd
}

func (a *app) accountRemoveCommand(file *string) *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove an account, and sign it out",
		Example: `  loadstone menu account remove ben --accounts accounts`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if *file == "" {
				return usageError{errNoAccounts}
			}
			if err := admin.RemoveAccount(*file, args[0]); err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "%s was removed\n", args[0])
			return nil
		},
	}
}

func (a *app) accountListCommand(file *string) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the accounts and their roles",
		Example: `  loadstone menu account list --accounts accounts`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if *file == "" {
				return usageError{errNoAccounts}
			}
			accounts, _, err := admin.LoadAccounts(*file)
			if err != nil {
				return err
			}
			for _, account := range accounts.All() {
				fmt.Fprintln(a.Stdout, account.Name, account.Role)
			}
			return nil
		},
	}
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
