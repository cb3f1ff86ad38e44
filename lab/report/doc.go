// Package report tells people what a run found: as a summary for a terminal, as
// Markdown for a pull request, and as report.html, one file.
//
// A result.Result is the only input of all three, so that they cannot disagree. The
// package measures nothing and decides nothing: intervals, ratios and verdicts
// arrive finished. What it owns is how they are said: how many digits, which
// words when a number is missing, and that a weak result looks weak.
//
// A number that is missing or not finite is shown as a dash and never drawn.
// Names and sentences in a Result come from experiment files and from programs
// under test, so they are treated as hostile: escaped in HTML, and free of
// control characters in a terminal.
package report
