package live

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/moeplan/moeplan/cmd/internal/page"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/plan"
	"github.com/moeplan/moeplan/topology"
)

var fields = []Field{{Name: "model", Label: "Model", Choices: []string{"qwen3-30b-a3b"}, Default: "qwen3-30b-a3b"}, {Name: "tp", Label: "TP", Pin: true}}

// planned answers every question with one small plan.
func planned(ctx context.Context, _ url.Values) (*page.Answer, error) {
	m, err := arch.Lookup("qwen3-30b")
	if err != nil {
		return nil, err
	}
	p, err := topology.LookupPlatform("h100")
	if err != nil {
		return nil, err
	}
	return page.Ask(ctx, plan.Request{Model: m, Platform: p, GPUs: 16, Top: 1})
}

// never is for requests that must be refused before anybody plans.
func never(t *testing.T) func(context.Context, url.Values) (*page.Answer, error) {
	return func(context.Context, url.Values) (*page.Answer, error) {
		t.Error("a refused request was planned")
		return nil, errors.New("refused")
	}
}

// request is one that a person's browser makes, changed by a test.
func request(method, target string, change func(*http.Request)) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "127.0.0.1:8080"
	if change != nil {
		change(r)
	}
	return r
}

func do(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestRefused: each protection by itself, on a request that is otherwise fine.
func TestRefused(t *testing.T) {
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	for _, x := range []struct {
		name, method, target string
		change               func(*http.Request)
		want                 int
	}{
		{"a name that somebody points here", "GET", "/answer", host("evil.example:8080"), http.StatusMisdirectedRequest},
		{"a name that looks like an address", "GET", "/answer", host("127.0.0.1.evil.example"), http.StatusMisdirectedRequest},
		{"a name that looks like localhost", "GET", "/", host("localhost.evil.example:8080"), http.StatusMisdirectedRequest},
		{"no host", "GET", "/", host(""), http.StatusMisdirectedRequest},
		{"an address of another machine", "GET", "/", host("10.0.0.5:8080"), http.StatusMisdirectedRequest},
		{"another origin", "GET", "/answer", header("Origin", "https://evil.example"), http.StatusForbidden},
		{"another port's origin", "GET", "/answer", header("Origin", "http://127.0.0.1:9090"), http.StatusForbidden},
		{"a sandboxed page's origin", "GET", "/answer", header("Origin", "null"), http.StatusForbidden},
		{"an image of another site", "GET", "/answer?gpus=16384", header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		{"another port's page", "GET", "/answer", header("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
		{"another site's link with a question", "GET", "/?gpus=16384", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
		}, http.StatusForbidden},
		{"a form", "POST", "/answer", nil, http.StatusMethodNotAllowed},
		{"a deletion", "DELETE", "/", nil, http.StatusMethodNotAllowed},
		{"a body", "GET", "/answer", func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), 1 }, http.StatusRequestEntityTooLarge},
		{"a body of unknown length", "GET", "/answer", func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), -1 }, http.StatusRequestEntityTooLarge},
		{"a long question", "GET", "/answer?tp=" + strings.Repeat("1", mostQuery), nil, http.StatusRequestURITooLong},
		{"another path", "GET", "/etc/passwd", nil, http.StatusNotFound},
		{"a path that climbs", "GET", "/../server.go", nil, http.StatusTemporaryRedirect},
	} {
		s := Server{Ask: never(t), Fields: fields}
		w := do(s.Handler(true), request(x.method, x.target, x.change))
		if w.Code != x.want {
			t.Errorf("%s: %d, want %d", x.name, w.Code, x.want)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s: the refusal lacks headers", x.name)
		}
		if w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: others may read it", x.name)
		}
	}
}

func TestServed(t *testing.T) {
	s := Server{Ask: planned, Fields: fields, Names: []string{"login1"}}
	for _, x := range []struct {
		host     string
		loopback bool
	}{{"127.0.0.1:8080", true}, {"localhost:8080", true}, {"LOCALHOST", true}, {"[::1]:8080", true}, {"127.1.2.3", true}, {"login1:8080", true},
		{"10.0.0.5:8080", false}, {"login1", false}} {
		w := do(s.Handler(x.loopback), request("GET", "/answer", func(r *http.Request) {
			r.Host = x.host
			r.Header.Set("Origin", "http://"+x.host)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Try first") {
			t.Errorf("%s: %d %.80s", x.host, w.Code, w.Body)
		}
	}
	link := do(s.Handler(true), request("GET", "/", func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Sec-Fetch-Mode", "navigate")
	}))
	if link.Code != http.StatusOK {
		t.Errorf("a link to the bare page: %d", link.Code)
	}
}

// TestPolicy: what runs on the page carries a nonce that nobody can foresee.
func TestPolicy(t *testing.T) {
	s := Server{Ask: planned, Fields: fields}
	seen := map[string]bool{}
	for range 2 {
		w := do(s.Handler(true), request("GET", "/", nil))
		policy := w.Header().Get("Content-Security-Policy")
		m := regexp.MustCompile(`script-src 'nonce-([A-Z0-9]+)'`).FindStringSubmatch(policy)
		if m == nil || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") {
			t.Fatalf("policy %q", policy)
		}
		if seen[m[1]] {
			t.Error("the nonce repeats")
		}
		seen[m[1]] = true
		for _, tag := range regexp.MustCompile(`<(script|style)[^>]*>`).FindAllString(w.Body.String(), -1) {
			if !strings.Contains(tag, m[1]) && !strings.Contains(tag, "application/json") {
				t.Errorf("%s has no nonce", tag)
			}
		}
	}
}

// TestErrorsAreText: what a request says comes back in errors.
func TestErrorsAreText(t *testing.T) {
	s := Server{Fields: fields, Ask: func(context.Context, url.Values) (*page.Answer, error) {
		return nil, errors.New(`<script>alert(1)</script>`)
	}}
	w := do(s.Handler(true), request("GET", "/answer", nil))
	if w.Code != http.StatusUnprocessableEntity || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("%d %s", w.Code, w.Header().Get("Content-Type"))
	}
	w = do(s.Handler(true), request("GET", `/?model=%22%3E%3Cscript%3Ealert(2)%3C/script%3E`, nil))
	if body := w.Body.String(); strings.Contains(body, "<script>alert") {
		t.Error("an error or a value is markup")
	}
}

// TestPatience: a question that takes too long is given up, and so is one that waits too long for its turn.
func TestPatience(t *testing.T) {
	s := Server{Fields: fields, Patience: 50 * time.Millisecond, Ask: func(ctx context.Context, _ url.Values) (*page.Answer, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	h := s.Handler(true)
	codes := make(chan int, 5)
	for range cap(codes) {
		go func() { codes <- do(h, request("GET", "/answer", nil)).Code }()
	}
	for range cap(codes) {
		select {
		case code := <-codes:
			if code != http.StatusServiceUnavailable {
				t.Errorf("%d, want %d", code, http.StatusServiceUnavailable)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("a question is never given up")
		}
	}
}

// TestDefaults: what a request leaves out has the form's default, and what the form does not have is dropped.
func TestDefaults(t *testing.T) {
	var got url.Values
	s := Server{Fields: fields, Ask: func(_ context.Context, q url.Values) (*page.Answer, error) {
		got = q
		return nil, errors.New("enough")
	}}
	do(s.Handler(true), request("GET", "/answer?tp=2&file=/etc/passwd", nil))
	if got.Encode() != "model=qwen3-30b-a3b&tp=2" {
		t.Errorf("asked %s", got.Encode())
	}
}

// TestEnds: Ctrl-C ends the server, and with it answers that still run. Over a real connection headers are bounded too.
func TestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	s := Server{Fields: fields, Ask: func(ctx context.Context, _ url.Values) (*page.Answer, error) {
		close(asked)
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()

	address := "http://" + listener.Addr().String()
	big, _ := http.NewRequest("GET", address+"/answer", nil)
	big.Header.Set("X-Big", strings.Repeat("x", 64<<10))
	if answer, err := http.DefaultClient.Do(big); err == nil {
		if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a large header: %d", answer.StatusCode)
		}
		answer.Body.Close()
	}

	go func() {
		if answer, err := http.Get(address + "/answer"); err == nil {
			answer.Body.Close()
		}
	}()
	<-asked
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the server does not end")
	}
}
