package cli

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
	"loadstone/system/results/pagecache"
	"loadstone/system/results/serve"
	"loadstone/system/results/stores"
)

func (a *app) serveCommand() *cobra.Command {
	c := serve.DefaultConfig()
	access := string(c.Access)
	var limits, publishAt string
	page := "on"
	var proxies []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve results over HTTP",
		Long: `Serve results over HTTP: a page for students at /, and for programs GET /student/{id}
with the student's access code in the header X-Access-Code or in the query
(?code=...), /openapi.json, /healthz, /readyz; on the admin address /metrics for
Prometheus, /debug/pprof, and the switches of the caches (GET /cache, PUT
/cache/memory and /cache/redis with the body on or off).

A wrong code gets exactly the same answer as an unknown id; after five wrong codes
for an id, the address is locked out for a quarter of an hour. An address may send
100 requests a second: behind a load balancer, give its address with --proxy;
otherwise all students count as one address. No result is visible before
--publish-at, and all are from that time on.

Caches in front of the store: --cache memory in this process, redis shared by all
servers, memory+redis both. They serve their content for up to --cache-max-age even
if the database is down; if Redis is down, all requests are still answered. Results
corrected by 'loadstone results correct' with --redis reach all servers at once.
Changes made in another way are visible after --cache-refresh: a minute, or 12 hours
with Redis, where pages are preloaded and must outlast the rush.

--access open requires no code and has no limits: for load tests, not for real
results. SIGTERM stops the server without losing a request.

Every flag can be given as an environment variable as well: --cache-bytes as
RESULTS_CACHE_BYTES. A flag wins.`,
		Example: `  loadstone results serve --store snapshot:results.snapshot
  RESULTS_STORE=sqlite:results.db RESULTS_CACHE=memory loadstone results serve --listen 0.0.0.0:8080

  # one of several servers behind a load balancer
  loadstone results serve --store postgres://results@db/results --cache memory+redis \
    --redis redis://cache:6379 --proxy 10.0.0.0/8 --listen 0.0.0.0:8080

  # switch a cache off and on again while the server runs
  curl -X PUT --data off http://127.0.0.1:9090/cache/redis
  curl -X PUT --data on http://127.0.0.1:9090/cache/redis`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Access = httpapi.Access(access)
			if err := guarded(&c, limits, proxies, publishAt); err != nil {
				return err
			}
			var err error
			if c.Page, err = onOff("page", page); err != nil {
				return err
			}
			if !cmd.Flags().Changed("cache-refresh") {
				c.CacheRefresh = pagecache.DefaultRefresh(c.Cache)
			}
			if err := c.Validate(); err != nil {
				return usageError{err}
			}
			return serve.Run(cmd.Context(), c, a.logger(), nil)
		},
	}
	cacheFlags(cmd.Flags(), &c)
	fl := cmd.Flags()
	fl.StringVar(&c.Listen, "listen", c.Listen, "address for students")
	fl.StringVar(&c.AdminListen, "admin-listen", c.AdminListen, "address for metrics, profiles and switches; keep it private")
	fl.StringVar(&c.Store, "store", c.Store, "what to serve: "+stores.Forms)
	fl.StringVar(&access, "access", access, "access to a page: code or open")
	fl.StringVar(&limits, "limits", "", "limit requests and wrong codes: on or off (default with --access code: on)")
	fl.StringSliceVar(&proxies, "proxy", nil, "address or prefix of a load balancer whose X-Forwarded-For and -Proto are trusted")
	fl.StringVar(&publishAt, "publish-at", "", "time before which no result is served, such as 2026-07-20T08:00:00+03:00")
	fl.StringVar(&page, "page", page, "the students' page at /: on or off")
	fl.StringVar(&c.SecureCookie, "secure-cookie", c.SecureCookie,
		"mark the page's cookie as secure: on, off, or auto for requests that came over HTTPS according to a --proxy")
	fl.DurationVar(&c.Drain, "drain", c.Drain, "how long to continue to answer, reporting not ready, after SIGTERM")
	fl.DurationVar(&c.StopTimeout, "stop-timeout", c.StopTimeout, "how long open requests may take after --drain")
	return cmd
}

// cacheFlags are the flags of the caches.
func cacheFlags(fl *pflag.FlagSet, c *serve.Config) {
	fl.StringVar(&c.Cache, "cache", c.Cache, "caches before the store: none, memory, redis or memory+redis")
	fl.StringVar(&c.Redis, "redis", c.Redis, "the Redis of the caches: "+pagecache.RedisForm)
	fl.Int64Var(&c.CacheBytes, "cache-bytes", c.CacheBytes, "size of the memory cache")
	fl.DurationVar(&c.CacheMaxAge, "cache-max-age", c.CacheMaxAge, "how long a cached page may be served while the store is down")
	fl.DurationVar(&c.CacheRefresh, "cache-refresh", c.CacheRefresh,
		"age at which a cached page is read again from the store (default with redis: 12h)")
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
	if limits == "on" {
		g := guard.DefaultConfig()
		c.Limits = &g
	}
	var err error
	if c.Proxies, err = guard.ParseProxies(proxies...); err != nil {
		return usagef("--proxy: %w", err)
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
