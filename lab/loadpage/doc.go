// Package loadpage tells what came of a load in one HTML file: the verdict first,
// then charts over time, the distribution of latencies and every number in a
// table. The file fetches nothing and needs no script and no network.
//
// A summary.Summary and the load's windows are the only input. The package
// measures nothing and decides nothing; it owns how things are said and drawn.
// A number that is missing is shown as a dash and never drawn. Names, and above
// all the examples of errors, come from plans and from servers under test, so
// they are treated as hostile.
package loadpage
