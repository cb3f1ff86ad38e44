// Package rails has the program on Rails that the feed is compared with, and a test that both say the same. It has no
// code in Go.
package rails
