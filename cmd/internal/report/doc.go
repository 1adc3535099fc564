// Package report writes moeplan's results: the main screen, and tables as text, Markdown, CSV and JSON.
//
// It formats and never computes: what it prints stands in the plan.Result it is given. Numbers carry their
// unit in the table's head; a number that is not known prints as "-".
package report
