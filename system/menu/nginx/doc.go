// Package nginx holds the configuration of the two NGINX of the menus' full form: nginx.conf,
// and templates in the form that the official image renders, lb for the one that clients
// reach and menulb for the one before the menu servers. It has no code; its tests attack all
// of it at once, from the client to the store.
package nginx
