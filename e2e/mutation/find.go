package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"golang.org/x/tools/go/packages"
)

// A finder finds the mutants of one package.
type finder struct {
	pkg      *packages.Package
	path     string // path of the current file, relative to the module
	source   []byte
	function string
	fixed    map[ast.Node]bool        // expressions that must stay constants
	uses     map[types.Object][]place // for each constant of the package, the places at which the code uses it
	found    []*mutant
}

// find returns the mutants of the package in the order of its files, followed by the mutants of its constants.
func (f *finder) find(root string) error {
	for _, visit := range []func(ast.Decl){f.declaration, f.constants} {
		for i, file := range f.pkg.Syntax {
			path, err := filepath.Rel(root, f.pkg.CompiledGoFiles[i])
			if err != nil {
				return err
			}
			f.path = filepath.ToSlash(path)
			if f.source, err = os.ReadFile(f.pkg.CompiledGoFiles[i]); err != nil {
				return err
			}
			for _, d := range file.Decls {
				visit(d)
			}
		}
	}
	f.number()
	return nil
}

// number sets the field Repeat of mutants whose other fields are equal, so that their identities differ.
func (f *finder) number() {
	repeats := map[identity]int{}
	for _, m := range f.found {
		id := m.identity
		m.Repeat = repeats[id]
		repeats[id]++
	}
}

func (f *finder) declaration(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Body == nil {
			return
		}
		f.function = d.Name.Name
		if d.Recv != nil {
			f.function = strings.TrimLeft(types.ExprString(d.Recv.List[0].Type), "*") + "." + f.function
		}
		f.walk(d.Body)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.VAR {
				f.function = v.Names[0].Name
				for _, e := range v.Values {
					f.walk(e)
				}
			}
		}
	}
}

// walk applies the mutation operators to a node of the syntax tree and to all nodes below it.
func (f *finder) walk(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		if n == nil || f.fixed[n] {
			return false
		}
		switch n := n.(type) {
		case *ast.GenDecl: // a declaration of constants or types in a function
			return n.Tok == token.VAR
		case *ast.ArrayType:
			f.fixed[n.Len] = n.Len != nil
		case *ast.CompositeLit:
			f.keys(n)
		case ast.Expr:
			f.expression(n)
		case ast.Stmt:
			f.statement(n)
		}
		return true
	})
}

// keys excludes two kinds of keys of composite literals from mutation: indexes of an array or slice, which must be constants, and field
// names of a struct. The keys of a map are mutated.
func (f *finder) keys(c *ast.CompositeLit) {
	if _, isMap := f.pkg.TypesInfo.TypeOf(c).Underlying().(*types.Map); isMap {
		return
	}
	for _, e := range c.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			f.fixed[kv.Key] = true
		}
	}
}

func (f *finder) expression(e ast.Expr) {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		f.binary(e)
	case *ast.UnaryExpr:
		f.sign(e)
	case *ast.BasicLit:
		f.literal(e)
	case *ast.Ident:
		f.ident(e)
	}
}

func (f *finder) statement(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.IfStmt:
		f.condition(s.Cond)
		f.otherwise(s)
	case *ast.ForStmt:
		if s.Cond != nil {
			f.condition(s.Cond)
		}
	case *ast.SwitchStmt:
		if s.Tag == nil {
			for _, c := range s.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					f.condition(e)
				}
			}
		}
	case *ast.ReturnStmt:
		for _, e := range s.Results {
			f.returned(e)
		}
	case *ast.BlockStmt:
		f.list(s.List)
	case *ast.CaseClause:
		f.list(s.Body)
	case *ast.CommClause:
		f.list(s.Body)
	}
}

// text returns the source code of a node.
func (f *finder) text(n ast.Node) string {
	start, end := f.offsets(n)
	return string(f.source[start:end])
}

func (f *finder) offsets(n ast.Node) (start, end int) {
	return f.pkg.Fset.Position(n.Pos()).Offset, f.pkg.Fset.Position(n.End()).Offset
}

// add appends a mutant that replaces node n by text. Its description contains the code before and after.
func (f *finder) add(operator string, n ast.Node, text string, describe ...string) {
	var typ types.Type
	if e, ok := n.(ast.Expr); ok {
		if typ = f.pkg.TypesInfo.TypeOf(e); !nameable(typ, f.pkg.Types) {
			return
		}
	}
	before, after := f.text(n), text
	if len(describe) > 0 {
		before, after = describe[0], describe[1]
	}
	start, end := f.offsets(n)
	f.found = append(f.found, &mutant{
		identity: identity{File: f.path, Function: f.function, Operator: operator, Before: short(before), After: short(after)},
		Line:     f.pkg.Fset.Position(n.Pos()).Line, pkg: f.pkg,
		places: []place{{f.path, start, end, typ, text}},
	})
}

// short returns the text in one line of at most 100 characters.
func short(text string) string {
	r := []rune(strings.Join(strings.FieldsFunc(text, unicode.IsSpace), " "))
	if len(r) > 100 {
		return string(r[:97]) + "..."
	}
	return string(r)
}
