// Package report writes moeplan's results: the main screen and its like, folded to the width of the reader, and tables as text,
// Markdown and CSV.
//
// It formats and never computes: what it prints stands in the plan.Result, or another result, that it is given. Numbers carry
// their unit in the table's head or beside them; one that is not known prints as "-", "?" or words, never as 0.
package report
