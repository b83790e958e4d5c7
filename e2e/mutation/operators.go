package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"
)

// comparisons contains the replacements of each comparison: the opposite comparison and, for < <= > >=, the comparison with a different
// result for equal values.
var comparisons = map[token.Token][]token.Token{
	token.LSS: {token.GEQ, token.LEQ}, token.LEQ: {token.GTR, token.LSS}, token.GTR: {token.LEQ, token.GEQ}, token.GEQ: {token.LSS, token.GTR},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
}

var swaps = map[token.Token]token.Token{
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
	token.MUL_ASSIGN: token.QUO_ASSIGN, token.QUO_ASSIGN: token.MUL_ASSIGN,
	token.INC: token.DEC, token.DEC: token.INC,
}

// binary replaces the operator of an expression.
func (f *finder) binary(e *ast.BinaryExpr) {
	if f.pkg.TypesInfo.Types[e].Value != nil {
		// With a mutated operand, the shift would not be a constant, and Go would give its other operand a different type.
		f.fixed[e.X], f.fixed[e.Y] = e.Op == token.SHL, e.Op == token.SHL
		return
	}
	if isLogic(e) {
		f.condition(e.X)
		f.condition(e.Y)
		f.replaceOperator("logic", e, swaps[e.Op])
		return
	}
	for i, op := range comparisons[e.Op] {
		f.replaceOperator([]string{"comparison", "boundary"}[i], e, op)
	}
	op, ok := swaps[e.Op]
	if !ok || !is(f.pkg.TypesInfo.TypeOf(e), types.IsNumeric) {
		return
	}
	if v := f.pkg.TypesInfo.Types[e.Y].Value; op == token.QUO && v != nil && constant.Sign(v) == 0 {
		return
	}
	f.replaceOperator("arithmetic", e, op)
}

func (f *finder) replaceOperator(operator string, e *ast.BinaryExpr, op token.Token) {
	x, y := f.text(e.X), f.text(e.Y)
	f.add(operator, e, "("+x+") "+op.String()+" ("+y+")", f.text(e), x+" "+op.String()+" "+y)
}

// sign removes the minus of a negated expression.
func (f *finder) sign(e *ast.UnaryExpr) {
	if e.Op == token.SUB && f.pkg.TypesInfo.Types[e].Value == nil {
		f.add("arithmetic", e, f.text(e.X))
	}
}

// condition negates a condition or an operand of && and ||. It skips comparisons and the operators && and ||, which the method binary
// changes.
func (f *finder) condition(e ast.Expr) {
	e = ast.Unparen(e)
	if b, ok := e.(*ast.BinaryExpr); ok && (isLogic(b) || comparisons[b.Op] != nil) {
		return
	}
	f.negate("condition", e)
}

func (f *finder) negate(operator string, e ast.Expr) {
	if not, ok := e.(*ast.UnaryExpr); ok && not.Op == token.NOT {
		f.add(operator, e, f.text(not.X))
		return
	}
	f.add(operator, e, "!("+f.text(e)+")", f.text(e), "!"+f.text(e))
}

// returned replaces a result of a function unless the result is a constant: a boolean by its opposite, and any other value by its zero
// value.
func (f *finder) returned(e ast.Expr) {
	tv := f.pkg.TypesInfo.Types[e]
	if tv.Value != nil || tv.IsNil() || tv.Type == nil {
		return
	}
	b, isBinary := e.(*ast.BinaryExpr)
	switch {
	case is(tv.Type, types.IsBoolean):
		if !isBinary || !isLogic(b) && comparisons[b.Op] == nil {
			f.negate("result", e)
		}
	case is(tv.Type, types.IsNumeric):
		f.add("result", e, "0")
	case is(tv.Type, types.IsString):
		f.add("result", e, `""`)
	case types.Identical(tv.Type, types.Universe.Lookup("error").Type()):
		f.add("result", e, "nil")
	}
}

// ident swaps true and false, and records the uses of the package's constants.
func (f *finder) ident(e *ast.Ident) {
	o := f.pkg.TypesInfo.Uses[e]
	switch {
	case o == types.Universe.Lookup("true"):
		f.add("boolean", e, "false")
	case o == types.Universe.Lookup("false"):
		f.add("boolean", e, "true")
	}
	if c, ok := o.(*types.Const); ok && c.Pkg() == f.pkg.Types {
		if typ := f.pkg.TypesInfo.TypeOf(e); nameable(typ, f.pkg.Types) {
			start, end := f.offsets(e)
			f.uses[c] = append(f.uses[c], place{f.path, start, end, typ, ""})
		}
	}
}

// literal replaces a number by the number plus one and minus one.
func (f *finder) literal(e *ast.BasicLit) {
	typ := f.pkg.TypesInfo.TypeOf(e)
	for _, after := range neighbors(e, typ) {
		f.add("constant", e, after)
	}
}

// otherwise removes the else branch of an if statement, unless the branch ends the function.
func (f *finder) otherwise(s *ast.IfStmt) {
	if s.Else == nil || ends(s.Else) {
		return
	}
	f.add("branch", s.Else, "", "else "+f.text(s.Else), "no else")
}

// ends reports whether the last statement of a branch leaves the function. Without this branch, the function might not compile.
func ends(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.BlockStmt:
		return len(s.List) > 0 && ends(s.List[len(s.List)-1])
	case *ast.IfStmt:
		return ends(s.Body) || s.Else != nil && ends(s.Else)
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return ok && types.ExprString(call.Fun) == "panic"
	}
	return false
}

// list adds, for each statement of a block, the mutants that remove the statement or swap the operator of an assignment.
func (f *finder) list(list []ast.Stmt) {
	for _, s := range list {
		if f.removable(s) {
			f.add("statement", s, "", f.text(s), "removed")
		}
		var op token.Token
		switch s := s.(type) {
		case *ast.AssignStmt:
			if is(f.pkg.TypesInfo.TypeOf(s.Lhs[0]), types.IsNumeric) {
				op = s.Tok
			}
		case *ast.IncDecStmt:
			op = s.Tok
		}
		if to, ok := swaps[op]; ok {
			before := f.text(s)
			f.add("arithmetic", s, strings.Replace(before, op.String(), to.String(), 1))
		}
	}
}

// removable reports whether a mutant removes a statement. Calls that lock or unlock are excluded, because usually only the race detector
// detects their absence.
func (f *finder) removable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.AssignStmt:
		for _, l := range s.Lhs {
			if id, ok := l.(*ast.Ident); !ok || id.Name != "_" {
				return s.Tok != token.DEFINE
			}
		}
		return false
	case *ast.ExprStmt:
		return f.removableCall(s.X)
	case *ast.DeferStmt:
		return f.removableCall(s.Call)
	case *ast.IncDecStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok == token.BREAK || s.Tok == token.CONTINUE
	}
	return false
}

func (f *finder) removableCall(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok || types.ExprString(call.Fun) == "panic" {
		return false
	}
	if s, ok := call.Fun.(*ast.SelectorExpr); ok {
		if called := f.pkg.TypesInfo.Uses[s.Sel]; called != nil && called.Pkg() != nil && called.Pkg().Path() == "sync" {
			return false
		}
	}
	return true
}

func isLogic(e *ast.BinaryExpr) bool { return e.Op == token.LAND || e.Op == token.LOR }

// is reports whether the underlying type is a basic type with the given property.
func is(t types.Type, info types.BasicInfo) bool {
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&info != 0
}
