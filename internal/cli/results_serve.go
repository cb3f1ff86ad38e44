package cli

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
	"loadstone/system/results/serve"
)

func (a *app) serveCommand() *cobra.Command {
	c := serve.DefaultConfig()
	access := string(c.Access)
	var limits, publishAt string
	var proxies []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve results over HTTP",
		Long: `Serve results over HTTP: GET /student/{id} with the student's access code in the
header X-Access-Code or in the query (?code=...), /healthz, /readyz; on the admin
address /metrics for Prometheus and /debug/pprof.

A wrong code is answered exactly as an unknown id, and five of them for an id lock
the address out for a quarter of an hour. An address gets 100 requests a second:
behind a balancer name it with --proxy, or all students are one address. Before
--publish-at nobody sees anything, and from that instant on everybody does.

--access open asks for no code and has no limits: for load tests, not for real
results. SIGTERM stops it without losing a request.

Every flag can be given as an environment variable as well: --cache-bytes as
RESULTS_CACHE_BYTES. A flag wins.`,
		Example: `  loadstone results serve --store snapshot:results.snapshot
  RESULTS_STORE=sqlite:results.db RESULTS_CACHE=memory loadstone results serve --listen 0.0.0.0:8080`,
		Args: a.args(cobra.NoArgs),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			return a.flagsFromEnv(cmd.Flags(), "RESULTS_")
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Access = httpapi.Access(access)
			if err := guarded(&c, limits, proxies, publishAt); err != nil {
				return err
			}
			if err := c.Validate(); err != nil {
				return usageError{err}
			}
			logger := slog.New(slog.NewJSONHandler(a.Stdout, nil))
			return serve.Run(cmd.Context(), c, logger, serve.Events{})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&c.Listen, "listen", c.Listen, "address for students")
	fl.StringVar(&c.AdminListen, "admin-listen", c.AdminListen, "address for metrics and profiles; keep it private")
	fl.StringVar(&c.Store, "store", c.Store, "what to serve: "+serve.StoreForms)
	fl.StringVar(&c.Cache, "cache", c.Cache, "cache before the store: none or memory")
	fl.Int64Var(&c.CacheBytes, "cache-bytes", c.CacheBytes, "size of the memory cache")
	fl.DurationVar(&c.CacheMaxAge, "cache-max-age", c.CacheMaxAge, "how long the memory cache may serve a page")
	fl.StringVar(&access, "access", access, "what opens a page: code or open")
	fl.StringVar(&limits, "limits", "", "bound requests and wrong codes: on or off (on with --access code if not given)")
	fl.StringSliceVar(&proxies, "proxy", nil, "address or prefix of a balancer whose X-Forwarded-For is to be believed")
	fl.StringVar(&publishAt, "publish-at", "", "instant before which nothing is served, such as 2026-07-20T08:00:00+03:00")
	fl.DurationVar(&c.Drain, "drain", c.Drain, "how long to go on answering, not ready, when told to stop")
	fl.DurationVar(&c.StopTimeout, "stop-timeout", c.StopTimeout, "how long open requests may take after that")
	return cmd
}

// guarded sets what keeps strangers out.
func guarded(c *serve.Config, limits string, proxies []string, publishAt string) error {
	switch limits {
	case "on", "off":
	case "":
		limits = "off"
		if c.Access == httpapi.Code {
			limits = "on"
		}
	default:
		return usagef("--limits %q: write on or off", limits)
	}
	if limits == "off" && len(proxies) > 0 {
		return usagef("--proxy does nothing without limits: write --limits on")
	}
	if limits == "on" {
		g := guard.DefaultConfig()
		var err error
		if g.Proxies, err = guard.ParseProxies(proxies...); err != nil {
			return usagef("--proxy: %w", err)
		}
		c.Limits = &g
	}
	if publishAt == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339, publishAt)
	if err != nil {
		return usagef("--publish-at %q is no instant; write one with its zone, such as 2026-07-20T08:00:00+03:00", publishAt)
	}
	c.PublishAt = &at
	return nil
}

// flagsFromEnv sets the flags that were not given from the environment:
// --cache-bytes from RESULTS_CACHE_BYTES.
func (a *app) flagsFromEnv(flags *pflag.FlagSet, prefix string) error {
	var failed error
	flags.VisitAll(func(f *pflag.Flag) {
		name := prefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := a.Getenv(name)
		if f.Changed || value == "" || failed != nil {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			failed = usagef("%s=%s: %w", name, value, err)
		}
	})
	return failed
}

func (a *app) healthCommand() *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use:     "health",
		Short:   "Ask a server whether it is ready: for container health checks",
		Long:    "Ask a server whether it is ready. Exit status 0 if it is, 1 if not.",
		Example: `  loadstone results health --url http://127.0.0.1:8080/readyz`,
		Args:    a.args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			// A server that takes longer to say that it is ready is not.
			ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
			defer cancel()
			return serve.Health(ctx, url)
		},
	}
	cmd.Flags().StringVar(&url, "url", "http://127.0.0.1:8080/readyz", "address to ask")
	return cmd
}
