// Package remotewrite sends the windows of a load to a Prometheus server, or to
// any other receiver of its remote write protocol, while the load runs.
//
// A Writer owns one goroutine and one queue. The load hands its windows to Add,
// which never waits; the goroutine sends what is queued, everything in one
// request where the receiver has fallen behind. When the queue is full the
// oldest window goes, and is counted. Nothing that the receiver does reaches the
// load: it is told once, by Close.
//
// The protocol is remote write 1.0, which all receivers take, and of 2.0 not all
// do. The series, all with the labels job="loadstone", run, and those of the
// user:
//
//	loadstone_http_reqs_total                          requests that ended
//	loadstone_http_req_failed_total                    of them, badly
//	loadstone_http_req_errors_total{kind}              of them, by kind of error
//	loadstone_iterations_total                         iterations that ended
//	loadstone_dropped_iterations_total                 arrivals never sent
//	loadstone_late_total                               sent too late by the generator
//	loadstone_checks_total                             checks made
//	loadstone_check_fails_total                        of them, those that did not hold
//	loadstone_data_sent_bytes_total                    bytes, as the protocol's messages
//	loadstone_data_received_bytes_total
//	loadstone_in_flight                                waiting or under way
//	loadstone_generator_busy_cores                     the generator's own CPU
//	loadstone_warmup                                   1 while nothing is measured yet
//	loadstone_http_req_duration_seconds{quantile}      response time, of the window
//	loadstone_http_req_service_seconds{quantile}       service time, of the window
//
// Counters count from 0 at the beginning of the load, warm-up included. The
// quantiles are 0.5, 0.95 and 0.99 of the window's own requests; they cannot be
// added up or averaged. A label kind is one of package failure's kinds. So the
// number of series is fixed, whatever the length of a load.
package remotewrite
