package cli

import (
	"context"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadstone/block/forwarded"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
	"loadstone/system/results/serve"
	"loadstone/system/results/stores"
)

func (a *app) serveCommand() *cobra.Command {
	c := serve.DefaultConfig()
	var limits, publishAt string
	var proxies []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve results over HTTP",
		Long: `Serve results over HTTP: a page for students at /, and for programs GET /student/{id}
with the student's access code in the header X-Access-Code or in the query
(?code=...), /openapi.json, /healthz, /readyz; on the admin address /metrics for
Prometheus and GET /cache for the state of the caches, and with RESULTS_ADMIN_TOKEN
set, for requests that send it (Authorization: Bearer TOKEN), /debug/pprof and the
switches of the caches (PUT /cache/memory and /cache/redis with the body on or off).

A wrong code gets exactly the same answer as an unknown id; after five wrong codes
for an id, the address is locked out for a quarter of an hour. An address may send
200 requests a second, 1,000 at once, which is a school's worth; servers with the
same --redis count together. Behind a load balancer, give its address with --proxy:
otherwise all students count as one address. No result is visible before
the time of publication, which the store says: see 'loadstone results embargo'.

Caches in front of the store: --cache memory in this process, redis shared by all
servers, memory+redis both. They serve their content for up to --cache-max-age even
if the database is down; if Redis is down, all requests are still answered. A server
asks its store every second which data set it holds and what was corrected, and serves
no older page.

--access open requires no code and has no limits: for load tests, not for real
results. SIGTERM stops the server without losing a request.

Every flag can be given as an environment variable as well: --cache-bytes as
RESULTS_CACHE_BYTES. A flag wins.`,
		Example: `  loadstone results serve --store snapshot:results.snapshot
  RESULTS_STORE=sqlite:results.db RESULTS_CACHE=memory loadstone results serve --listen 0.0.0.0:8080

  # one of several servers behind a load balancer
  loadstone results serve --store postgres://results@db/results --cache memory+redis \
    --redis redis://cache:6379 --proxy 10.0.0.0/8 --listen 0.0.0.0:8080

  # switch a cache off while the server runs, with the token that it was started with
  curl -X PUT --data off -H "Authorization: Bearer $RESULTS_ADMIN_TOKEN" http://127.0.0.1:9090/cache/redis`,
		RunE: checked(&c, func(ctx context.Context, c serve.Config) error { return serve.Run(ctx, c, a.logger(), nil) },
			func() error { return guarded(&c, limits, proxies, publishAt) }),
	}
	cacheFlags(cmd.Flags(), &c)
	fl := cmd.Flags()
	fl.StringVar(&c.Listen, "listen", c.Listen, "address for students")
	adminFlags(fl, &c.Config, "profiles and switches")
	fl.StringVar(&c.Store, "store", c.Store, "what to serve: "+stores.Forms)
	fl.StringVar((*string)(&c.Access), "access", string(c.Access), "access to a page: code or open")
	fl.StringVar(&limits, "limits", "", "limit requests and wrong codes: on or off (default with --access code: on)")
	fl.StringSliceVar(&proxies, "proxy", nil, "address or prefix of a load balancer whose X-Forwarded-For and -Proto are trusted")
	fl.StringVar(&publishAt, "publish-at", "", "refused: servers take it from the store")
	fl.Lookup("publish-at").Hidden = true // who still has it is told where it belongs
	fl.Var(onOff(&c.Page), "page", "the students' page at /: on or off")
	fl.StringVar(&c.SecureCookie, "secure-cookie", c.SecureCookie,
		"mark the page's cookie as secure: on, off, or auto for requests that came over HTTPS according to a --proxy")
	stopFlags(fl, &c.Config)
	return cmd
}

// cacheFlags are the flags of the caches.
func cacheFlags(fl *pflag.FlagSet, c *serve.Config) {
	fl.StringVar(&c.Cache, "cache", c.Cache, "caches before the store: none, memory, redis or memory+redis")
	redisFlags(fl, &c.Redis, "the Redis of the caches")
	fl.Int64Var(&c.CacheBytes, "cache-bytes", c.CacheBytes, "size of the memory cache")
	fl.DurationVar(&c.CacheMaxAge, "cache-max-age", c.CacheMaxAge, "how long a page is kept in the caches")
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
		c.Limits = new(guard.DefaultConfig())
	}
	var err error
	if c.Proxies, err = forwarded.Parse(proxies...); err != nil {
		return usagef("--proxy: %w", err)
	}
	if publishAt != "" {
		return usagef("--publish-at (RESULTS_PUBLISH_AT) is %s: the time of publication is no matter of a server any more, all of them take it from the store; give it to 'loadstone results seed' or 'import', or to 'loadstone results embargo --store STORE --until %s', and leave it out here",
			publishAt, publishAt)
	}
	return nil
}
