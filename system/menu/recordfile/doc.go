// Package recordfile keeps a whole data set of menus as one immutable, compressed file, and
// answers look-ups from it by id.
//
// Build writes such a file from any source. Follow serves whatever file is at a path and, while
// it runs, moves to a newer one as soon as it is there. Nothing is ever changed in a file: new
// data is a new file, put in the old one's place by a rename.
//
// # Compression
//
// Every body is a Zstandard frame of its own, compressed with one dictionary that is trained
// on a sample of the same data, or that is given: see block/dictionary. A frame can go from here to a
// client that has the dictionary as it is. Whole menus that share the most with others made frames a
// fifth smaller than the library's dictionary builder did, which also gives another dictionary
// each time.
//
// A body that does not compress is a frame with a raw block, a dozen bytes larger.
//
// # What is mapped, and what is trusted
//
// Ten million menus are about 2 GB, too much for the copy into memory that system/results
// makes of its snapshots (ADR 012). So the file is divided:
//
//   - the header, the dictionary and the index, 13 bytes per menu, are copied into memory
//     and checked by Follow. They are proven, whatever happens to the file afterwards: an id
//     that has no menu is told from a menu that is damaged
//   - the records stay in the file, which is mapped. Each has a checksum, over its id, tag and
//     frame and the dictionary, that every look-up checks; then it checks the body's tag
//
// A mapped file can be cut short or overwritten by whoever may write to it, and a mapping
// of any kind does not protect from that. A look-up copies the record, some 180 bytes, out
// of the mapping with faults turned into errors (debug.SetPanicOnFault), and checks and
// decompresses the copy. A file that is spoiled while it is served therefore gives
// menu.ErrCorrupt for the menus that it has lost, and the right bytes for the others: no
// crash, no wrong bytes. Build and mv, which replace the file by a rename, disturb nothing.
//
// The alternative is pread, which has the same safety for one system call per look-up. With
// a mapping, a page that is not in memory holds up a thread for as long as the disk takes,
// and the runtime does not know: a server whose files do not fit its memory needs more
// threads (GOMAXPROCS) than it has processors.
//
// A mapping is released when the store has been closed or has moved on and no look-up is
// under way: the garbage collector finds out, as in system/results/snapshot. Bodies are on
// the heap, and outlive it.
package recordfile
