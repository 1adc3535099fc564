// Package sqlite reads the rows of ordinary tables out of a SQLite database file, and nothing else: no SQL, no index, no view,
// no write, no lock. It exists because profilers export that format: a whole SQL engine costs more than the rest of this
// program may grow, opens files by itself, does not build for js/wasm, and would run what a stranger's schema says.
//
// # What to call
//
// [Open] reads the header and the schema through an io.ReaderAt. [File.Table] finds a table, [Table.Scan] walks over its
// rows by rowid, a [Finder] finds one.
//
// # Format
//
// https://www.sqlite.org/fileformat2.html: sections 1.3 (header), 1.6 (b-tree pages), 1.5 (overflow), 2.1 (records) and
// 2.6 (schema). What a row says is never executed; CREATE TABLE is read for the names of columns alone.
//
// # Bounds
//
// A file is hostile until read: a page is used at most once in a scan, so that cycles and shared overflow chains end, trees
// have at most 20 levels, texts give their first kilobyte, and memory is the cache of 4 MiB and a page for each level. What
// is wrong with a file is an *[Error] that names it, never a panic.
//
// A write-ahead log or rollback journal beside the file is not looked at: whoever opens the file has to.
package sqlite
