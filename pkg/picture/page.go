package picture

import (
	_ "embed"
	"html/template"
	"maps"
)

// Palette is CSS that defines the colors of all pages as variables, for light and dark screens and for printing.
//
//go:embed palette.css
var Palette string

//go:embed page.css
var style string

//go:embed pieces.html
var pieces string

// Parse parses the template of a self-contained page. The template begins with {{template "head" "its title"}}. It may draw a Chart with
// {{template "chart" .}}, Bars with {{template "bars" .}} and a Table with {{template "table" .}}.
func Parse(text string, funcs template.FuncMap) *template.Template {
	all := template.FuncMap{"style": func() template.CSS { return template.CSS(Palette + style) }}
	maps.Copy(all, funcs)
	return template.Must(template.Must(template.New("page").Funcs(all).Parse(pieces)).Parse(text))
}
