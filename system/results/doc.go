// Package results is the domain of the exam results system: a student's result,
// the body that answers a look-up, and the ways a whole data set comes to be.
//
// It holds no storage and no HTTP. Its words:
//
//   - a Student is one row of results, complete with the access code that opens it
//   - a Page is a student's finished answer; a Store finds pages by id
//   - a Source yields every student of a data set once, with a Meta that says
//     what the data set is; the Generator, an imported CSV file and a database
//     are sources
//   - a builder (sqlitestore.Build, snapshot.Build) turns a source into a file,
//     wholly or not at all
//
// Adapters live below this package, one per technology: csvfile, sqlitestore,
// snapshot, httpapi. The caller owns what it opens and closes it.
package results
