// Package live serves package page's answers to a person on the same machine, who changes the question and sees the
// answer change.
//
// It trusts no request. Any page that the person visits can send requests to a port of their machine, so a request must
// name a host that cannot be another site's (guard.go), must not come from another site, carries at most a short query
// and no body, and gets so much time and no more. Nothing is written, and nothing that a request says names a file.
package live
