package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadstone/block/forwarded"
	"loadstone/block/lsm"
	"loadstone/system/chat"
	"loadstone/system/chat/logstore"
	"loadstone/system/chat/registry"
	"loadstone/system/chat/serve"
)

func (a *app) chatCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "chat",
		GroupID: "system",
		Short:   "The chat of live shows: seed, serve, accounts, sink, user, replay, reconcile, new-epoch",
		Long: `The chat of live shows, over WebSocket: what one says all who watch the stream see, in one
order, and what was acknowledged is never lost.`,
		Example: `  loadstone chat seed --data chat-data --streams 100
  # and its page at http://127.0.0.1:8097/app
  loadstone chat serve --data chat-data --listen 127.0.0.1:8097`,
	}
	cmd.AddCommand(a.healthCommand("chat"), a.chatUserCommand())
	cmd.AddCommand(a.withEnv("CHAT_", a.chatSeedCommand(), a.chatNewEpochCommand(), a.chatServeCommand(), a.chatAccountsCommand(), a.chatSinkCommand(), a.chatReplayCommand(), a.chatReconcileCommand())...)
	cmd.RunE = needsCommand
	return cmd
}

func (a *app) chatSeedCommand() *cobra.Command {
	var dir string
	var count, messages int
	var unlessInUse bool
	shared := registry.DefaultConfig()
	cmd := &cobra.Command{
		Use:   "seed",
		Short: "Add invented streams to a log",
		Long: `Add invented streams to a log, with the ids from 1 on. Those that are there already are
left unchanged, and so are their messages.

With --messages something is said in them, and every second one has ended. With --database the streams are
those of several servers, and nothing is said in them.

Every flag can be given as an environment variable as well: --data as CHAT_DATA.`,
		Example: `  loadstone chat seed --data chat-data --streams 100`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			streams, err := chat.InventStreams(count)
			if err != nil {
				return usageError{err}
			}
			if messages < 0 || messages > mostInvented {
				return usageError{fmt.Errorf("%d messages: write 0 to %d", messages, mostInvented)}
			}
			if shared.Address != "" {
				return a.seedShared(cmd.Context(), shared, streams, messages)
			}
			c := logstore.DefaultConfig()
			c.Dir = dir
			log, err := logstore.Open(cmd.Context(), c)
			if unlessInUse && errors.Is(err, lsm.ErrInUse) {
				fmt.Fprintf(a.Stdout, "%s is in use, and was left as it is\n", dir)
				return nil
			}
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, log.Close()) }()
			if err := log.AddStreams(streams); err != nil {
				return err
			}
			if messages > 0 {
				if err := inventMessages(cmd.Context(), log, streams, messages); err != nil {
					return err
				}
			}
			fmt.Fprintf(a.Stdout, "%s has %d streams\n", dir, len(log.Streams()))
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&dir, "data", serve.DefaultConfig().Data, "directory of the log")
	databaseFlags(fl, &shared)
	fl.IntVar(&count, "streams", 12, "number of streams")
	fl.IntVar(&messages, "messages", 0, "number of invented messages in each stream that is live")
	fl.BoolVar(&unlessInUse, "unless-in-use", false, "change nothing, and succeed, where a server has the log open")
	return cmd
}

func (a *app) chatNewEpochCommand() *cobra.Command {
	c := logstore.DefaultConfig()
	cmd := &cobra.Command{
		Use:   "new-epoch",
		Short: "Give a log another epoch, after a backup was restored",
		Long: `Give a log another epoch, after a backup was restored: viewers do not take up where they were
in the log that is lost. Nothing else of it is changed. No server may have it open meanwhile.

Every flag can be given as an environment variable as well: --data as CHAT_DATA.`,
		Example: `  loadstone chat new-epoch --data chat-data`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			log, err := logstore.OpenExisting(cmd.Context(), c)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, log.Close()) }()
			if err := log.NewEpoch(); err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "%s has the epoch %s and %d streams\n", c.Dir, log.Epoch(), len(log.Streams()))
			return nil
		},
	}
	cmd.Flags().StringVar(&c.Dir, "data", serve.DefaultConfig().Data, "directory of the log")
	return cmd
}

func (a *app) chatServeCommand() *cobra.Command {
	c := serve.DefaultConfig()
	var proxies []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the chat",
		Long: `Serve the chat: the page /app, GET /ws for WebSocket, POST /api/guest for a guest's token, /api/users, /api/session and
/api/me for who signs up, /api/streams and below, /healthz and /readyz; on the admin address /metrics for Prometheus, and with CHAT_ADMIN_TOKEN
set, for requests that send it, POST /streams, POST /streams/{id}/end and /debug/pprof.

--tick is the shortest time between two frames to a viewer: what is said meanwhile is one
frame and one write. A viewer that is too slow goes on with what is new, and is told how many
messages it missed.

With --kafka this is one of several servers, which share the log: what is said goes to Kafka, gets its place in
Redis, and is told by all servers; streams are in a MariaDB. There is no log in a directory then, and 'loadstone chat accounts'
serves the accounts.

Every flag can be given as an environment variable as well: --admin-listen as
CHAT_ADMIN_LISTEN. A flag wins. SIGTERM stops the server without losing what it accepted.`,
		Example: `  loadstone chat serve --data chat-data --listen 127.0.0.1:8097
  loadstone chat serve --kafka 10.0.0.1:9092 --redis redis://10.0.0.2 --database mysql://chat@10.0.0.3/chat --database-password-file password`,
		RunE: served(a, &c, serve.Run, func() (err error) {
			if c.Proxies, err = forwarded.Parse(proxies...); err != nil {
				return usageError{err}
			}
			return nil
		}),
	}
	fl := cmd.Flags()
	serviceFlags(fl, &c.Config, "profiles and streams")
	fl.StringVar(&c.Data, "data", c.Data, "directory of the log; it is made if there is none")
	clusterFlags(fl, &c.Cluster)
	fl.DurationVar(&c.Hub.Tick, "tick", c.Hub.Tick, "shortest time between two frames to a viewer; 0 sends each message as soon as possible")
	fl.BoolVar(&c.Compression, "compression", c.Compression, "whether messages are compressed for viewers whose browsers offer it (permessage-deflate): each frame once for all")
	fl.IntVar(&c.Hub.Loops, "loops", c.Hub.Loops, "number of event loops, each on a thread")
	fl.IntVar(&c.Hub.MaxConns, "max-viewers", c.Hub.MaxConns, "maximum number of viewers")
	fl.IntVar(&c.Hub.MaxPerAddress, "max-viewers-per-address", c.Hub.MaxPerAddress, "maximum number of viewers of one address, or IPv6 /64")
	fl.IntVar(&c.Hub.MaxPerRoom, "max-viewers-per-room", c.Hub.MaxPerRoom, "maximum number of viewers of one stream")
	fl.IntVar(&c.Room.Bytes, "room-bytes", c.Room.Bytes, "what is kept in memory of each stream's messages, a power of two; who missed more is told so")
	fl.IntVar(&c.Room.Resume, "history", c.Room.Resume, "messages that who joins is shown at most")
	fl.DurationVar(&c.TokenTTL, "token-ttl", c.TokenTTL, "how long a guest's token is good")
	fl.StringVar(&c.Summaries.URL, "summary-url", "", "interface of a language model that summarises what is said, as OpenAI's, such as https://models.example.com/v1; it is sent messages; without one there are extracts alone")
	fl.StringVar(&c.Summaries.Model, "summary-model", "", "name of the language model")
	fl.DurationVar(&c.Summaries.Timeout, "summary-timeout", c.Summaries.Timeout, "how long the language model may take")
	secretFlags(fl, "summary-key", &c.Summaries.Key, "what the language model is asked with")
	fl.IntVar(&c.MessagesPerUser, "messages-per-user", c.MessagesPerUser, "messages of a user in a second, five times as many at once")
	fl.IntVar(&c.MessagesPerNetwork, "messages-per-network", c.MessagesPerNetwork, "messages of an address, or IPv6 /64, in a second, five times as many at once")
	fl.IntVar(&c.MessagesPerRoom, "messages-per-room", c.MessagesPerRoom, "messages of all viewers of a stream in a second, five times as many at once")
	accountFlags(fl, &c, &proxies)
	return cmd
}

// accountFlags are the flags of what is about accounts, guests among them.
func accountFlags(fl *pflag.FlagSet, c *serve.Config, proxies *[]string) {
	fl.DurationVar(&c.AccessTTL, "access-ttl", c.AccessTTL, "how long the token of who has signed up is good, as long as its session is there")
	fl.BoolVar(&c.Guests, "guests", c.Guests, "whether one may take part without having signed up")
	fl.StringVar(&c.PublicURL, "public-url", "", "where browsers reach this server, such as https://chat.example.com; sign-ins at a provider come back there")
	fl.StringVar(&c.OIDC.Issuer, "oidc-issuer", "", "provider of OpenID Connect at which one may sign in, such as https://accounts.example.com; without one there is none")
	fl.StringVar(&c.OIDC.ClientID, "oidc-client", "", "what the provider knows this server by")
	secretFlags(fl, "oidc-secret", &c.OIDC.Secret, "what this server shows the provider")
	fl.StringVar(&c.OIDC.Name, "oidc-name", c.OIDC.Name, "what the page calls the provider")
	fl.IntVar(&c.GuestsPerNetwork, "guests-per-network", c.GuestsPerNetwork, "new guests, or renewed tokens, of an address, or IPv6 /64, in a second, five times as many at once")
	fl.StringSliceVar(&c.Pictures, "pictures", nil, "origin of which the page shows pictures of users, such as https://pictures.example.com, whose server learns who sees them; may be repeated")
	fl.StringSliceVar(&c.Origins, "origin", nil, "page that may connect beside those of this host, such as https://example.com; may be repeated")
	fl.StringSliceVar(proxies, "trusted-proxy", nil, "address or prefix of a proxy whose X-Forwarded-For is believed; may be repeated")
}

func (a *app) chatAccountsCommand() *cobra.Command {
	c := serve.Accounts{Config: serve.DefaultConfig()}
	var proxies []string
	cmd := &cobra.Command{
		Use:   "accounts",
		Short: "Serve the accounts of a chat of several servers",
		Long: `Serve the accounts of a chat of several servers: /api/users, /api/session, /api/me, /api/ways, /api/oidc and /api/hosts, and no
chat. The users are in the MariaDB that has the streams; 'loadstone chat user --database' adds and changes them. A
proxy in front of all servers sends these paths here. Chat servers ask the database whether the session of a
token is still there, and go on while neither it nor this server is.

Every flag can be given as an environment variable as well: --admin-listen as
CHAT_ADMIN_LISTEN. A flag wins.`,
		Example: `  loadstone chat accounts --database mysql://chat@10.0.0.3/chat --database-password-file password`,
		RunE: served(a, &c, serve.RunAccounts, func() (err error) {
			if c.Proxies, err = forwarded.Parse(proxies...); err != nil {
				return usageError{err}
			}
			return nil
		}),
	}
	fl := cmd.Flags()
	serviceFlags(fl, &c.Config.Config, "profiles")
	databaseFlags(fl, &c.Cluster.Registry)
	accountFlags(fl, &c.Config, &proxies)
	return cmd
}
