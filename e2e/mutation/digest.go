package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/scanner"
	"go/token"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// digest returns a hash of the files in a directory and below it. It ignores comments and the layout of Go files, because they do not
// change the result of a test.
func digest(root, dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		name = filepath.ToSlash(name)
		fmt.Fprintf(h, "%s\n", name)
		if filepath.Ext(name) != ".go" || strings.Contains(name, "/testdata/") {
			fmt.Fprintf(h, "%d\n", len(b))
			h.Write(b)
			return err
		}
		hashCode(h, b, strings.HasSuffix(name, "_test.go"))
		return err
	})
	return hex.EncodeToString(h.Sum(nil)[:8]), err
}

// hashCode adds the tokens of a Go file to a hash. It adds only comments that have an effect: directives such as //go:build and //go:embed
// and, in a test, the expected output of an example. It omits a semicolon or comma before a closing bracket, which depends on the line
// breaks.
func hashCode(h hash.Hash, code []byte, isTest bool) {
	files := token.NewFileSet()
	var s scanner.Scanner
	s.Init(files.AddFile("", files.Base(), len(code)), code, nil, scanner.ScanComments)
	separator := token.ILLEGAL // a semicolon or comma that the next token adds to the hash
	output := false            // whether the previous comment belongs to the output of an example
	for {
		_, tok, text := s.Scan()
		switch {
		case tok == token.EOF:
			return
		case tok == token.COMMENT:
			output = output || isTest && isOutput(text)
			if !output && !isDirective(text) {
				continue
			}
		case tok == token.SEMICOLON || tok == token.COMMA:
			separator = tok
			continue
		default:
			output = false
		}
		if closing := tok == token.RPAREN || tok == token.RBRACK || tok == token.RBRACE; separator != token.ILLEGAL && !closing {
			fmt.Fprintf(h, "%s\n", separator)
		}
		separator = token.ILLEGAL
		fmt.Fprintf(h, "%s %d %s\n", tok, len(text), text)
	}
}

func isDirective(comment string) bool {
	return strings.HasPrefix(comment, "//go:") || strings.HasPrefix(comment, "//line ") || strings.HasPrefix(comment, "// +build ")
}

// isOutput reports whether a comment begins the expected output of an example.
func isOutput(comment string) bool {
	text := strings.ToLower(strings.TrimSpace(strings.TrimLeft(comment, "/*")))
	return strings.HasPrefix(text, "output:") || strings.HasPrefix(text, "unordered output:")
}
