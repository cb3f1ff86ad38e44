package recipe

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
)

// listen binds to the instance's address what the configuration binds to all
// addresses or to the container's own loopback. A second directive for the same
// port, which is the one for IPv6, goes.
func (n *nginx) listen(d directive, b nginxBlock) []edit {
	text := d.args[0].text
	if socket, ok := strings.CutPrefix(text, "unix:"); ok {
		b.listens[text] = true
		return []edit{{start: d.args[0].start, end: d.args[0].end, text: quoted("unix:" + n.file(socket))}}
	}
	host, port := "", text
	if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
	} else if strings.Trim(text, "0123456789-") != "" {
		host, port = strings.Trim(text, "[]"), "80"
	}
	if slices.Contains([]string{"", "*", "0.0.0.0", "::", "::1", "127.0.0.1", "localhost"}, host) {
		host = n.Host
	}
	number, _ := strconv.Atoi(strings.Split(port, "-")[0]) // NGINX says what is wrong with it
	n.ports = append(n.ports, number)
	address := net.JoinHostPort(host, port)
	if b.listens[address] {
		return []edit{{start: d.start, end: d.end}}
	}
	b.listens[address] = true
	edits := []edit{{start: d.args[0].start, end: d.args[0].end, text: address}}
	for _, arg := range d.args[1:] {
		if strings.HasPrefix(arg.text, "ipv6only=") {
			edits = append(edits, edit{start: arg.start, end: arg.end})
		}
	}
	return edits
}

// upstream makes as many servers of one as its name has addresses, which is
// what NGINX does with a name that Docker resolves.
func (n *nginx) upstream(d directive) []edit {
	host, port := d.args[0].text, ""
	if h, p, err := net.SplitHostPort(host); err == nil {
		host, port = h, ":"+p
	}
	addresses, ok := n.addresses(host)
	if !ok {
		return nil
	}
	var options strings.Builder
	for _, arg := range d.args[1:] {
		options.WriteString(" " + quoted(arg.text))
	}
	servers := make([]string, 0, len(addresses))
	for _, a := range addresses {
		servers = append(servers, "server "+strings.TrimSpace(a)+port+options.String()+";")
	}
	return []edit{{start: d.start, end: d.end, text: strings.Join(servers, " ")}}
}

// pass puts the address in the place of the service's name in the target of a
// proxy_pass or one of its kind.
func (n *nginx) pass(target string) (string, bool) {
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok {
		scheme, rest = "", target // fastcgi_pass has none
	} else {
		scheme += "://"
	}
	authority, uri := rest, ""
	if i := strings.IndexAny(rest, "/$?"); i >= 0 {
		authority, uri = rest[:i], rest[i:]
	}
	host, port := authority, ""
	if h, p, err := net.SplitHostPort(authority); err == nil {
		host, port = h, ":"+p
	} else if !ok {
		return "", false // a bare name is an upstream's
	}
	addresses, known := n.addresses(host)
	if !known || n.upstreams[host] {
		return "", false
	}
	if len(addresses) > 1 {
		n.Warnf("%s goes to the first of %d instances only; let it go to an `upstream` with `server %s;`, which has all of them", target, len(addresses), authority)
	}
	return scheme + addresses[0] + port + uri, true
}

// checkPorts says what NGINX's "permission denied" would mean.
func (n *nginx) checkPorts() error {
	if n.UID == 0 {
		return nil
	}
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	lowest, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("read the lowest unprivileged port: %w", err)
	}
	for _, p := range n.ports {
		if p > 0 && p < lowest {
			return fmt.Errorf("it listens on port %d, and only root may use ports below %d here; use another port, such as 8080, or run as root", p, lowest)
		}
	}
	return nil
}
