# Varnish with all menus in memory.
vcl 4.1;

backend default {
    .host = "origin";
    .port = "8080";
}

sub vcl_backend_response {
    set beresp.ttl = 1d;
    unset beresp.http.Vary;
}
