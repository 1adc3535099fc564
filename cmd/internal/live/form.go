package live

import (
	"embed"
	"html/template"
	"net/url"
	"strings"
	"sync"
)

//go:embed assets
var assets embed.FS

// templates are parsed when the first form is asked for.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").ParseFS(assets, "assets/*.html"))
})

// Field is one input of the form. Its name is the command line's flag.
type Field struct {
	Name, Label string
	Choices     []string // nil: text
	Default     string
	Placeholder string
	Number      bool
	Pin         bool // among the pins, which are folded away
}

// formView is the form with what was asked.
type formView struct {
	Nonce  string
	Style  template.CSS
	Script template.JS
	Fields []input
	Pins   []input
	Pinned bool
	Error  string
}

type input struct {
	Field
	Value string
}

func formOf(fields []Field, q url.Values, problem, nonce string) (template.HTML, error) {
	v := formView{Nonce: nonce, Style: template.CSS(asset("live.css")), Script: template.JS(asset("live.js")), Error: problem}
	for _, f := range fields {
		in := input{f, f.Default}
		if q.Has(f.Name) {
			in.Value = q.Get(f.Name)
		}
		if f.Pin {
			v.Pins = append(v.Pins, in)
			v.Pinned = v.Pinned || in.Value != f.Default
		} else {
			v.Fields = append(v.Fields, in)
		}
	}
	var b strings.Builder
	err := templates().ExecuteTemplate(&b, "form.html", v)
	return template.HTML(b.String()), err
}

func asset(name string) string {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic("bug: " + err.Error())
	}
	return string(text)
}
