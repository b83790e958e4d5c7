package main

import (
	"cmp"
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// selector is the source of a file that is added to each package of the test programs. Its function reports whether a mutant is selected in
// this process. If the environment variable MUTATION_REACHED names a file, the function also appends each mutant that the process reaches
// to this file once.
const selector = `
var mutationSelected, _ = strconv.Atoi(os.Getenv("MUTATION_SELECTED"))
var mutationFile = os.Getenv("MUTATION_REACHED")
var mutationReached [%d]atomic.Bool

func mutationIs(n int) bool {
	if n == mutationSelected {
		return true
	}
	if mutationFile != "" && !mutationReached[n].Load() && !mutationReached[n].Swap(true) {
		f, err := os.OpenFile(mutationFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		if _, err := f.WriteString(strconv.Itoa(n) + "\n"); err != nil {
			panic(err)
		}
		f.Close()
	}
	return false
}
`

// A schema generates the source of one package with all its mutants.
type schema struct {
	pkg     *types.Package
	imports []string       // packages whose types the mutants use, by path
	names   map[string]int // number of each used type, which is a part of the type's generated name
	types   []string       // declarations of the used types
}

// A site is a part of a file that one or more mutants replace.
type site struct {
	start, end int
	typ        types.Type // type of the replaced expression; nil: the site is a statement
	choices    []choice
}

// A choice is the replacement text of one mutant.
type choice struct {
	id   int
	text string
}

// sites groups the places of mutants by file and by the replaced part of the file. A part precedes the parts inside it.
func sites(mutants []*mutant) map[string][]*site {
	type part struct {
		file       string
		start, end int
		statement  bool
	}
	byPart, byFile := map[part]*site{}, map[string][]*site{}
	for _, m := range mutants {
		for _, p := range m.places {
			key := part{p.file, p.start, p.end, p.typ == nil}
			if byPart[key] == nil {
				byPart[key] = &site{start: p.start, end: p.end, typ: p.typ}
				byFile[p.file] = append(byFile[p.file], byPart[key])
			}
			byPart[key].choices = append(byPart[key].choices, choice{m.id, p.text})
		}
	}
	for _, s := range byFile {
		slices.SortFunc(s, func(a, b *site) int {
			return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(rank(a), rank(b)))
		})
	}
	return byFile
}

// rank orders a statement before an expression that has the same position.
func rank(s *site) int {
	if s.typ == nil {
		return 0
	}
	return 1
}

// file returns the source of a file with the mutants of its sites. It adds no line, so that line numbers in messages remain correct.
func (c *schema) file(source []byte, sites []*site) string {
	var out strings.Builder
	at := 0
	for len(sites) > 0 {
		s := sites[0]
		inner := 1
		for inner < len(sites) && sites[inner].start < s.end {
			inner++
		}
		out.Write(source[at:s.start])
		c.site(&out, s, c.part(source, s, sites[1:inner]))
		at, sites = s.end, sites[inner:]
	}
	out.Write(source[at:])
	return out.String()
}

// part returns the source of a site, in which the sites inside it are replaced.
func (c *schema) part(source []byte, s *site, inner []*site) string {
	var moved []*site
	for _, i := range inner {
		moved = append(moved, &site{i.start - s.start, i.end - s.start, i.typ, i.choices})
	}
	return c.file(source[s.start:s.end], moved)
}

// site writes code that has the effect of the selected mutant or, if no mutant of this site is selected, of the original text.
func (c *schema) site(out *strings.Builder, s *site, original string) {
	if s.typ == nil {
		for _, m := range s.choices {
			fmt.Fprintf(out, "if mutationIs(%d) { %s } else ", m.id, m.text)
		}
		fmt.Fprintf(out, "{ %s }", original)
		return
	}
	fmt.Fprintf(out, "func() %s { ", c.name(s.typ))
	for _, m := range s.choices {
		fmt.Fprintf(out, "if mutationIs(%d) { return %s }; ", m.id, m.text)
	}
	fmt.Fprintf(out, "return %s }()", original)
}

// name returns a generated name for a type. No local declaration can hide this name.
func (c *schema) name(t types.Type) string {
	t = types.Default(types.Unalias(t))
	text := types.TypeString(t, func(p *types.Package) string {
		if p == c.pkg {
			return ""
		}
		i := slices.Index(c.imports, p.Path())
		if i < 0 {
			i = len(c.imports)
			c.imports = append(c.imports, p.Path())
		}
		return fmt.Sprintf("mutationImport%d", i)
	})
	n, ok := c.names[text]
	if !ok {
		n = len(c.names)
		c.names[text] = n
		c.types = append(c.types, fmt.Sprintf("type mutationType%d = %s\n", n, text))
	}
	return fmt.Sprintf("mutationType%d", n)
}

// declarations returns the source of the file that declares the selector and the generated names of types.
func (c *schema) declarations(mutants int) string {
	var out strings.Builder
	fmt.Fprintf(&out, "package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n\t\"sync/atomic\"\n", c.pkg.Name())
	for i, path := range c.imports {
		fmt.Fprintf(&out, "\tmutationImport%d %q\n", i, path)
	}
	out.WriteString(")\n\n" + strings.Join(c.types, ""))
	fmt.Fprintf(&out, selector, mutants+1)
	return out.String()
}

// nameable reports whether a package can name the type of an expression.
func nameable(t types.Type, in *types.Package) bool {
	switch t := types.Unalias(t).(type) {
	case *types.Basic:
		return t.Kind() != types.Invalid && t.Kind() != types.UntypedNil
	case *types.Named:
		o := t.Obj()
		return t.TypeArgs().Len() == 0 && (o.Pkg() == nil || o.Parent() == o.Pkg().Scope() && (o.Pkg() == in || o.Exported()))
	}
	return false
}
