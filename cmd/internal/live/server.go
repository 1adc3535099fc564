package live

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/moeplan/moeplan/cmd/internal/page"
)

// Server answers questions.
type Server struct {
	// Ask answers a question that the fields hold. Its errors are shown to the person who asked.
	Ask    func(ctx context.Context, q url.Values) (*page.Answer, error)
	Fields []Field
	// Names are host names under which the server is reached, besides localhost and addresses.
	Names []string
	// Patience bounds an answer; 0 means ten seconds.
	Patience time.Duration
}

// atOnce is how many questions are worked on at a time; others wait for their turn as long as their patience lasts.
const atOnce = 2

// Handler serves the page at / and its changing part at /answer, to this machine alone if loopback is set.
func (s *Server) Handler(loopback bool) http.Handler {
	turns := make(chan struct{}, atOnce)
	answer := func(r *http.Request) (template.HTML, int, error) {
		patience := s.Patience
		if patience == 0 {
			patience = 10 * time.Second
		}
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-ctx.Done():
			return "", http.StatusServiceUnavailable, errors.New("too many questions at a time")
		}
		a, err := s.Ask(ctx, s.asked(r.URL.Query()))
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return "", http.StatusServiceUnavailable, fmt.Errorf("no answer within %s: pin something, or ask for fewer GPUs", patience)
		case err != nil:
			return "", http.StatusUnprocessableEntity, err
		}
		body, err := page.Body(a)
		if err != nil {
			return "", http.StatusInternalServerError, err
		}
		return body, http.StatusOK, nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/answer", func(w http.ResponseWriter, r *http.Request) {
		body, status, err := answer(r)
		if err != nil {
			refuse(w, status, "%v", err)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, body)
	})
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		body, status, err := answer(r)
		problem := ""
		if err != nil {
			problem = err.Error()
		}
		s.page(w, q, body, status, problem)
	})
	return &guard{next: mux, loopback: loopback, names: s.Names}
}

// page writes the whole page. Only what carries the nonce of this answer may style it or run.
func (s *Server) page(w http.ResponseWriter, q url.Values, body template.HTML, status int, problem string) {
	nonce := rand.Text()
	form, err := formOf(s.Fields, q, problem, nonce)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "%v", err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+nonce+"'; script-src 'nonce-"+nonce+
		"'; img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	// The status is out: a reader that went away is no failure of ours.
	_ = page.WriteFrame(w, "live", body, form, nonce)
}

// asked keeps what the fields hold, with their defaults for what was not asked.
func (s *Server) asked(q url.Values) url.Values {
	out := url.Values{}
	for _, f := range s.Fields {
		value := f.Default
		if q.Has(f.Name) {
			value = q.Get(f.Name)
		}
		if value != "" {
			out.Set(f.Name, value)
		}
	}
	return out
}

// Serve serves on a listener until the context ends, and then lets running answers finish for a moment.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	tcp, ok := l.Addr().(*net.TCPAddr)
	server := &http.Server{
		Handler:           s.Handler(!ok || tcp.IP.IsLoopback()),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		// Half of what the program gives a command after Ctrl-C. Answers in progress end with their context, so that only clients
		// which never finish asking take as long.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second/2)
		defer cancel()
		stopped <- server.Shutdown(last)
	})
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped
	return nil
}
