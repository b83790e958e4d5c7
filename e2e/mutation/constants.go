package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strconv"
)

// constants adds the mutants that change numbers in declared constants. A mutant is selected at run time, so it cannot change the
// declaration. Instead, it replaces each use of the constant in the package. Constants on which other constants or types depend have no
// mutants.
func (f *finder) constants(d ast.Decl) {
	g, ok := d.(*ast.GenDecl)
	if !ok || g.Tok != token.CONST {
		return
	}
	for _, s := range g.Specs {
		s := s.(*ast.ValueSpec)
		for i, value := range s.Values {
			object := f.pkg.TypesInfo.Defs[s.Names[i]]
			if uses := f.uses[object]; len(uses) > 0 && len(uses) == f.used(object) && is(object.Type(), types.IsNumeric) {
				f.function = s.Names[i].Name
				f.value(value, uses)
			}
		}
	}
}

// used returns the number of uses of an object in the code of the package.
func (f *finder) used(object types.Object) (n int) {
	for _, o := range f.pkg.TypesInfo.Uses {
		if o == object {
			n++
		}
	}
	return n
}

// value adds the mutants of all numbers in the value of a constant. uses contains the places of the constant's uses.
func (f *finder) value(value ast.Expr, uses []place) {
	start, end := f.offsets(value)
	ast.Inspect(value, func(n ast.Node) bool {
		l, ok := n.(*ast.BasicLit)
		if !ok {
			return true
		}
		from, to := f.offsets(l)
		for _, text := range neighbors(l, f.pkg.TypesInfo.TypeOf(l)) {
			after := string(f.source[start:from]) + text + string(f.source[to:end])
			changed, err := types.Eval(f.pkg.Fset, f.pkg.Types, value.Pos(), after)
			if err != nil || changed.Value == nil {
				continue // the changed value is not valid, for example because of a division by zero
			}
			m := &mutant{
				identity: identity{File: f.path, Function: f.function, Operator: "constant", Before: short(f.text(value)), After: short(after)},
				Line:     f.pkg.Fset.Position(l.Pos()).Line, pkg: f.pkg,
			}
			for _, p := range uses {
				p.text = number(changed.Value)
				m.places = append(m.places, p)
			}
			f.found = append(f.found, m)
		}
		return true
	})
}

// neighbors returns the texts of a numeric literal plus one and minus one.
func neighbors(e *ast.BasicLit, typ types.Type) (texts []string) {
	if e.Kind != token.INT && e.Kind != token.FLOAT {
		return nil
	}
	v := constant.MakeFromLiteral(e.Value, e.Kind, 0)
	for _, op := range []token.Token{token.ADD, token.SUB} {
		w := constant.BinaryOp(v, op, constant.MakeInt64(1))
		if constant.Sign(w) >= 0 || !is(typ, types.IsUnsigned) {
			texts = append(texts, number(w))
		}
	}
	return texts
}

// number returns the Go source of a constant.
func number(v constant.Value) string {
	text := v.ExactString()
	if v.Kind() != constant.Int {
		f, _ := constant.Float64Val(v)
		text = strconv.FormatFloat(f, 'g', -1, 64)
	}
	if constant.Sign(v) < 0 {
		return "(" + text + ")"
	}
	return text
}
