// Package helm is the tests of the charts beside it: what they make, what they refuse, and that the programs
// take what they are given.
package helm
