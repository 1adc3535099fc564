package live

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// mostQuery bounds the question of a request, in bytes.
const mostQuery = 4096

// guard refuses requests that a person at this machine did not make, before anything reads them.
type guard struct {
	next http.Handler
	// loopback says that only addresses of this machine are served.
	loopback bool
	// names are further host names that people may use.
	names []string
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	// What needs more says so itself.
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	switch {
	case !g.knows(r.Host):
		refuse(w, http.StatusMisdirectedRequest, "this server is not %q; open it by its address", r.Host)
	case foreign(r):
		refuse(w, http.StatusForbidden, "requests of other sites are refused")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "%s: only GET and HEAD", r.Method)
	case r.ContentLength != 0:
		refuse(w, http.StatusRequestEntityTooLarge, "a question has no body")
	case len(r.URL.RawQuery) > mostQuery:
		refuse(w, http.StatusRequestURITooLong, "the question is longer than %d bytes", mostQuery)
	default:
		g.next.ServeHTTP(w, r)
	}
}

// knows reports whether a Host header can only be meant for this server. A name can be made to point here by whoever
// owns it (DNS rebinding), an address cannot.
func (g *guard) knows(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr.Unmap().IsLoopback() || !g.loopback
	}
	return strings.EqualFold(name, "localhost") ||
		slices.ContainsFunc(g.names, func(n string) bool { return strings.EqualFold(n, name) })
}

// foreign reports whether another site made the browser send the request. Browsers say so in Sec-Fetch-Site, older ones
// in Origin; programs such as curl send neither. A link to the bare page is fine: it asks nothing.
func foreign(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	bare := r.URL.Path == "/" && r.URL.RawQuery == "" && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	return !bare
}

func refuse(w http.ResponseWriter, status int, format string, args ...any) {
	http.Error(w, fmt.Sprintf(format, args...), status)
}
