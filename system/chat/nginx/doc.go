// Package nginx has the configuration of the NGINX in front of the chat servers, and tests of
// it. It has no code.
package nginx
