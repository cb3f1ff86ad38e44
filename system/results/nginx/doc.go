// Package nginx holds the configuration of the balancer in front of the results
// service: nginx.conf, templates of it in the form that the official image
// renders, and the page that students see when nobody is left to ask. It has no
// code; its tests run the configuration in a real NGINX, before real replicas
// of the service.
package nginx
