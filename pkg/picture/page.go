package picture

import (
	_ "embed"
	"html/template"
	"maps"
	"strings"
)

// Palette has every page's colours in light, dark and print as CSS variables.
//
//go:embed palette.css
var Palette string

//go:embed page.css
var style string

//go:embed pieces.html
var pieces string

// Parse reads the template of a page that stands alone. It may use {{style}}, {{template "chart" .}} of a Chart and {{template "bars" .}}
// of Bars, {{heads "name" "-note"}} for the head of a table and {{cell "name" .Value}} for a cell under it, whose name a narrow screen
// shows beside it; a name that begins with - is of a column of text.
func Parse(text string, funcs template.FuncMap) *template.Template {
	all := template.FuncMap{"style": func() template.CSS { return template.CSS(Palette + style) }, "heads": heads, "cell": cell}
	maps.Copy(all, funcs)
	return template.Must(template.Must(template.New("page").Funcs(all).Parse(pieces)).Parse(text))
}

func heads(names ...string) template.HTML {
	var b strings.Builder
	b.WriteString(`<tr role="row">`)
	for _, name := range names {
		class, name := text(name)
		b.WriteString(`<th role="columnheader" scope="col"` + class + `>` + template.HTMLEscapeString(name) + `</th>`)
	}
	return template.HTML(b.String() + "</tr>")
}

func cell(name string, value any) template.HTML {
	class, name := text(name)
	body, is := value.(template.HTML)
	if !is {
		body = template.HTML(template.HTMLEscaper(value))
	}
	return template.HTML(`<td role="cell"` + class + ` data-name="` + template.HTMLEscapeString(name) + `">` + string(body) + `</td>`)
}

func text(name string) (class, rest string) {
	if rest, is := strings.CutPrefix(name, "-"); is {
		return ` class="text"`, rest
	}
	return "", name
}
