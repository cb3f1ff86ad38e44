# Varnish in front of the edge. It asks for the addresses of a journey from what is published, and
# takes the edge's word for how long to keep an answer, as NGINX does.
vcl 4.1;

import std;

backend edge {
    .host = "edge";
    .port = "8080";
    .probe = { .url = "/readyz"; .interval = 1s; .timeout = 1s; .initial = 3; }
}

sub vcl_recv {
    if (req.url ~ "^/notices") {
        set req.url = "/feed/notices.json";
    } else if (req.url ~ "cursor=pages%2[Ff]") {
        set req.url = regsub(req.url, "^.*cursor=pages%2[Ff]([0-9]+)\.json.*$", "/feed/pages/\1.json");
    } else if (req.url ~ "^/feed\?") {
        set req.url = "/feed/pages/1.json";
    }
    set req.url = regsub(req.url, "\?.*$", "");
    # Who weighs codings, or has a dictionary, asks the edge; else an answer is kept once for each coding.
    if (req.http.Accept-Encoding ~ ";" || req.http.Available-Dictionary) {
        return (pass);
    }
    if (req.http.Accept-Encoding ~ "\bbr\b") {
        set req.http.Accept-Encoding = "br";
    } else if (req.http.Accept-Encoding ~ "\bzstd\b") {
        set req.http.Accept-Encoding = "zstd";
    } else if (req.http.Accept-Encoding ~ "\bgzip\b") {
        set req.http.Accept-Encoding = "gzip";
    } else {
        unset req.http.Accept-Encoding;
    }
    if (std.healthy(req.backend_hint)) {
        set req.grace = 5s; # stale-while-revalidate
    }
}

sub vcl_backend_response {
    if (beresp.status == 200) {
        set beresp.grace = 1h; # stale-if-error
    }
}
