// Package nginx has the configuration of the NGINX in front of the API servers, and tests of
// it. It has no code.
package nginx
