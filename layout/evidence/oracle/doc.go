// Package oracle holds the tests of layout/evidence that need a whole SQLite to write and judge databases. They stand apart so
// that the fuzz tests of that package and of layout/evidence/sqlite are not built with its million lines.
package oracle
