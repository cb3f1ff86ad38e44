package recipe

import (
	"os"
	"slices"
	"strings"
	"testing"

	"loadstone/lab/topology"
)

// started starts the recipe, and returns its arguments after those that are always
// there, with $D for the instance's directory.
func startedVarnish(t *testing.T, in *Instance, args ...string) ([]string, error) {
	t.Helper()
	in.Files["varnishd"], in.port, in.Service.Arguments = "/usr/sbin/varnishd", 80, args
	p, err := startVarnish(t.Context(), in)
	if err != nil {
		return nil, err
	}
	var got []string
	for _, arg := range p.Command {
		got = append(got, strings.ReplaceAll(arg, in.Dir, "$D"))
	}
	always := []string{"/usr/sbin/varnishd", "-j", "none", "-F", "-n", "$D/work", "-p", "vcl_path=$D/root/etc/varnish:/usr/share/varnish/vcl"}
	if len(got) < len(always) || !slices.Equal(got[:len(always)], always) {
		t.Fatalf("got %q, want it to begin with %q", got, always)
	}
	return got[len(always):], nil
}

func TestVarnishOptions(t *testing.T) {
	t.Parallel()
	const admin = "-T 127.77.1.9:0 "
	f := func(args, want string) {
		t.Helper()
		in := testInstance(t, topology.Volume{Text: "vcl 4.1; backend default none;", Target: "/conf/my.vcl"})
		in.Service.Environment["VARNISH_SIZE"] = "5M"
		got, err := startedVarnish(t, in, strings.Fields(args)...)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s:\n got  %q, %v\n want %q", args, strings.Join(got, " "), err, want)
		}
	}
	const own = "-f $D/root/etc/varnish/default.vcl -a http=127.77.1.9:80,HTTP -a proxy=127.77.1.9:8443,PROXY -p feature=+http2 -s malloc,5M"
	f("", admin+own)
	f("-p thread_pools=1 -t10", admin+own+" -p thread_pools=1 -t 10")
	f("varnishd -F -f default.vcl -a :8080", admin+"-f $D/root/etc/varnish/default.vcl -a 127.77.1.9:8080")
	f("varnishd -b one:8080 -a0.0.0.0:8080,PROXY -j unix -n /var/lib/varnish", admin+"-b 127.77.1.3:8080 -a 127.77.1.9:8080,PROXY")
	f("varnishd -b none -a x=/run/v.sock,user=me -s disk=file,/data/x,1G", admin+"-b none -a x=$D/root/run/v.sock,user=me -s disk=file,$D/root/data/x,1G")
	f("varnishd -b none -T localhost:6082 -S secret -C", "-b none -T 127.77.1.9:6082 -S $D/root/etc/varnish/secret -C")
	f("varnishd -b none -T none", "-b none -T none")
	f("varnishd -f /conf/my.vcl", admin+"-f $D/root/conf/my.vcl")

	for args, want := range map[string]string{
		"varnishd -f":           "ends with -f, which needs a value",
		"varnishd -f /none.vcl": "the file /none.vcl is not mounted",
		"varnishd -b api:8080":  "the backend api has 2 addresses, and Varnish takes one",
		"varnishlog":            `its command begins with "varnishlog"`,
	} {
		if _, err := startedVarnish(t, testInstance(t), strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}

func TestVCLIsRendered(t *testing.T) {
	t.Parallel()
	f := func(text, want string) {
		t.Helper()
		in := testInstance(t, topology.Volume{Text: text, Target: varnishMain}, topology.Volume{Source: "/home/me/page", Target: "/www"})
		if _, err := startedVarnish(t, in); err != nil {
			t.Errorf("%s: %v", text, err)
			return
		}
		got, err := os.ReadFile(in.scratch(varnishMain))
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.ReplaceAll(string(got), in.Dir+"/root", "$D"); text != want {
			t.Errorf("got  %s\nwant %s", text, want)
		}
	}
	same := func(text string) { t.Helper(); f(text, text) }
	f(`backend a { .host = "one"; .port = "80"; }`, `backend a { .host = "127.77.1.3"; .port = "80"; }`)
	f("backend a { .host=\n \"one:8080\"; }", "backend a { .host=\n \"127.77.1.3:8080\"; }")
	f(`backend a { .host = "localhost"; }`, `backend a { .host = "127.77.1.9"; }`)
	f(`include "/etc/varnish/more.vcl"; include +glob "/www/*.vcl"; set x = std.fileread("/www/a");`,
		`include "$D/etc/varnish/more.vcl"; include +glob "/home/me/page/*.vcl"; set x = std.fileread("/home/me/page/a");`)
	same(`include "more.vcl"; include "./more.vcl"; include "/usr/share/x.vcl";`)
	same(`backend a { .host = "example.org"; .host_header = "one"; }`)
	same("# .host = \"one\"\n// .host = \"one\"\n/* .host = \"one\" */ set x = \"http://one/\" + {\".host = \"one\"\"} + \"\"\".host = \"one\"\"\";")

	in := testInstance(t, topology.Volume{Text: `backend a { .host = "api"; }`, Target: varnishMain})
	if _, err := startedVarnish(t, in); err == nil || !strings.Contains(err.Error(), "default.vcl: the backend api has 2 addresses, and Varnish takes one") {
		t.Errorf("a service with two instances: got %v", err)
	}
}
