package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"loadstone/block/account"
	"loadstone/block/redact"
	"loadstone/system/chat"
	"loadstone/system/chat/registry"
	"loadstone/system/chat/serve"
	"loadstone/system/chat/users"
)

// chatUsers are the commands about those who have signed up.
type chatUsers struct {
	*app

	data     string
	database registry.Config
}

func (a *app) chatUserCommand() *cobra.Command {
	c := &chatUsers{app: a, database: registry.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "user",
		Short: "Who has signed up: add, list, role, disable, password",
		Long: `Who has signed up: add, list, role, disable, password. A server on the same directory may run. A
member follows hosts; a host starts streams as well, and ends its own; an admin ends anybody's.
USER is an id or an e-mail address. With --database they are those of several servers.`,
		Example: c.example("list --data chat-data"),
	}
	fl := cmd.PersistentFlags()
	fl.StringVar(&c.data, "data", serve.DefaultConfig().Data, "directory of the log, which has the users, too")
	databaseFlags(fl, &c.database)
	commands := []*cobra.Command{c.addCommand(), c.listCommand(), c.roleCommand(), c.disableCommand(), c.passwordCommand()}
	cmd.AddCommand(a.withEnv("CHAT_", commands...)...)
	cmd.RunE = needsCommand
	return cmd
}

func (c *chatUsers) example(command string) string { return "  loadstone chat user " + command }

// with calls do with the users, which have to be there unless they are made.
func (c *chatUsers) with(ctx context.Context, made bool, do func(s *users.Store) error) (err error) {
	cfg := users.DefaultConfig(serve.UsersFile(c.data))
	if c.database.Address != "" {
		if err := c.database.Validate(); err != nil {
			return usageError{err}
		}
		if cfg.Database, err = c.database.Connect(); err != nil {
			return err
		}
	} else if _, err := os.Stat(cfg.Path); !made && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("nobody has signed up in %s: `loadstone chat user add`, or name another directory with --data", c.data)
	}
	s, err := users.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return do(s)
}

// one calls do with the user that a command is about.
func (c *chatUsers) one(ctx context.Context, name string, do func(s *users.Store, u *users.User) error) error {
	return c.with(ctx, false, func(s *users.Store) error {
		u, err := s.Find(ctx, name)
		if errors.Is(err, chat.ErrNoUser) {
			return fmt.Errorf("there is no user %.100q in %s", name, cmp.Or(redact.Address(c.database.Address), c.data))
		}
		if err != nil {
			return err
		}
		return do(s, u)
	})
}

// plain is a text as it is, or quoted where it has more than a terminal only shows: an older
// program, or another, may have stored it.
func plain(text string) string {
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

func (c *chatUsers) role(text string) (chat.Role, error) {
	if !slices.Contains(chat.Roles(), chat.Role(text)) {
		return "", usagef("the role is %.70q: write member, host or admin", text)
	}
	return chat.Role(text), nil
}

func (c *chatUsers) password(ctx context.Context, of string) (string, error) {
	password, err := c.askPassword(ctx, "Password of "+of+": ")
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	if err := account.CheckLength(password); err != nil {
		return "", usageError{err}
	}
	return password, nil
}

// fromInput is what is said of a password.
var fromInput = fmt.Sprintf(`The password, %d to %d bytes, is read from the terminal, or else is the first line of the
standard input.`, account.MinPassword, account.MaxPassword)

func (c *chatUsers) addCommand() *cobra.Command {
	name, role := "", string(chat.Member)
	cmd := &cobra.Command{
		Use:   "add EMAIL",
		Short: "Add a user, who signs in with an e-mail address",
		Long: `Add a user, who signs in with an e-mail address. One that there is already is left unchanged.
` + fromInput,
		Example: c.example("add ada@example.com --name Ada --role host --data chat-data < password"),
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			role, err := c.role(role)
			if err != nil {
				return err
			}
			n := users.New{Email: args[0], Name: cmp.Or(name, args[0]), Role: role}
			if n.Password, err = c.password(cmd.Context(), args[0]); err != nil {
				return err
			}
			if err := n.Check(); err != nil {
				return usageError{fmt.Errorf("%.100q: %w", args[0], err)}
			}
			return c.with(cmd.Context(), true, func(s *users.Store) error {
				u, there, err := s.Add(cmd.Context(), n)
				if err == nil && there {
					err = fmt.Errorf("there is a user %s: change it with the commands role and password", u.Email)
				}
				if err == nil {
					fmt.Fprintf(c.Stdout, "%s, %s, was added as %s\n", u.Email, u.Role, u.ID)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name that others see; without one it is the e-mail address")
	cmd.Flags().StringVar(&role, "role", role, "member, host or admin")
	return cmd
}

func (c *chatUsers) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the users: id, role, e-mail address, name",
		Example: c.example("list --data chat-data"),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), false, func(s *users.Store) error {
				return s.Each(cmd.Context(), func(u *users.User) error {
					state := string(u.Role)
					if u.Disabled {
						state += " (disabled)"
					}
					fmt.Fprintf(c.Stdout, "%s %s %s %q\n", u.ID, state, plain(cmp.Or(u.Email, "-")), u.Name)
					return nil
				})
			})
		},
	}
}

func (c *chatUsers) roleCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "role USER ROLE",
		Short: "Give a user another role: member, host or admin",
		Long: `Give a user another role: member, host or admin. It counts at once for what a server does, and from
the next sign-in or renewed token on for what it shows. Who signed up has proved to nobody that the
e-mail address is its own: such a user is made host or admin by its id, which its owner sees at
/api/me. An address is enough for a user whom you have added or given a password.`,
		Example: c.example("role ada@example.com host --data chat-data"),
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			role, err := c.role(args[1])
			if err != nil {
				return err
			}
			return c.one(cmd.Context(), args[0], func(s *users.Store, u *users.User) error {
				if role != chat.Member && !u.Vouched && u.ID != args[0] {
					return fmt.Errorf("anybody may have signed up with %s: ask its owner for the account's id and name that, or give the account another password first", args[0])
				}
				err := s.SetRole(cmd.Context(), u.ID, role)
				if err == nil {
					fmt.Fprintf(c.Stdout, "%s is %s\n", args[0], role)
				}
				return err
			})
		},
	}
}

func (c *chatUsers) disableCommand() *cobra.Command {
	undo := false
	cmd := &cobra.Command{
		Use:   "disable USER",
		Short: "End a user's sessions, and let it sign in no more",
		Long: `End a user's sessions, and let it sign in no more. A server that runs refuses its tokens from then
on, and ends its connections to rooms within a second.`,
		Example: c.example("disable ada@example.com --data chat-data") + "\n" + c.example("disable ada@example.com --undo --data chat-data"),
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.one(cmd.Context(), args[0], func(s *users.Store, u *users.User) error {
				err := s.SetDisabled(cmd.Context(), u.ID, !undo)
				if err == nil {
					fmt.Fprintf(c.Stdout, "%s %s sign in\n", args[0], map[bool]string{true: "may", false: "may not"}[undo])
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "let it sign in again")
	return cmd
}

func (c *chatUsers) passwordCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "password USER",
		Short:   "Give a user another password, and end its sessions",
		Long:    "Give a user another password, and end its sessions, with its tokens and connections. " + fromInput,
		Example: c.example("password ada@example.com --data chat-data < password"),
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.one(cmd.Context(), args[0], func(s *users.Store, u *users.User) error {
				if u.Email == "" {
					return fmt.Errorf("%s signs in elsewhere, and has no password here", args[0])
				}
				password, err := c.password(cmd.Context(), args[0])
				if err == nil {
					err = s.SetPassword(cmd.Context(), u.ID, password)
				}
				if err == nil {
					fmt.Fprintf(c.Stdout, "%s has the new password\n", args[0])
				}
				return err
			})
		},
	}
}
