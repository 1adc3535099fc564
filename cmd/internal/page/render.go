package page

import (
	"bytes"
	"embed"
	"html/template"
	"io"
	"sync"
)

//go:embed assets
var assets embed.FS

// templates are parsed once, when the first page is asked for: other commands must not wait for it. They are part of the
// program: one that does not parse is a bug.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").ParseFS(assets, "assets/*.html"))
})

// frame is what stands around the body.
type frame struct {
	Title string
	Style template.CSS
	// Script is the page's own program. Data never goes into it.
	Script template.JS
	Body   template.HTML
	// Form is what a server puts above the body, "" in a file.
	Form template.HTML
	// Nonce lets a server's content policy admit the style and the script, and nothing else.
	Nonce string
}

// Write writes the whole file.
func Write(w io.Writer, a *Answer) error {
	body, err := Body(a)
	if err != nil {
		return err
	}
	return WriteFrame(w, titleOf(a), body, "", "")
}

// WriteFrame writes a file around a body and, above it, a form. Both must be of this program's own making.
func WriteFrame(w io.Writer, title string, body, form template.HTML, nonce string) error {
	return templates().ExecuteTemplate(w, "page.html", frame{
		Title: title, Style: template.CSS(asset("style.css") + asset("pictures.css")), Script: template.JS(asset("page.js")),
		Body: body, Form: form, Nonce: nonce,
	})
}

// Body is the page without its frame.
func Body(a *Answer) (template.HTML, error) {
	v, err := viewOf(a)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := templates().ExecuteTemplate(&b, "body.html", v); err != nil {
		return "", err
	}
	return template.HTML(b.String()), nil
}

func asset(name string) string {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic("bug: " + err.Error())
	}
	return string(text)
}
