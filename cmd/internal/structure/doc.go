// Package structure holds the tests of the project's own shape: which package may import which and why, and the rules
// of its style that a machine can check. It has no code that the program uses.
package structure
