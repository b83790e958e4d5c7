package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

// maxFile is the greatest size of a file. A ConfigMap has at most 1 MiB.
const maxFile = 16 << 20

// file is the content of a file.
type file struct {
	path *Path  // the path from which the file was read; nil: every document is accepted
	name string // the path as passed to Load; for a file in a directory, followed by the name of the file
	text []byte
	hash [sha256.Size]byte
	err  error // why the file could not be read; documents that were read from the file earlier then stay in force
	// shown and above are set if text is a part of another file. shown is the name of that other file in problems. above is the number of
	// lines of that file before text.
	shown string
	above int
	// content is the value of a key of a ConfigMap. It is copied to the field text when the file is decoded.
	content string
	// withdrawn is true if the file is a key of a ConfigMap and err means that no document of the ConfigMap is accepted any more. In this
	// case, documents that were read from the file earlier do not stay in force.
	withdrawn bool
}

// readAll reads files and directories, without their subdirectories. If a path cannot be read, the result contains a file with the error,
// so that the store does not treat the documents of that path as deleted.
func readAll(paths []Path) (files []file) {
	for i := range paths {
		p, first := &paths[i], len(files)
		info, err := os.Stat(p.Name)
		switch {
		case err != nil:
			files = append(files, file{name: p.Name, err: err})
		case info.IsDir():
			files = append(files, readDirectory(p.Name)...)
		default:
			files = append(files, readFile(p.Name, p.Name))
		}
		for j := first; j < len(files); j++ {
			files[j].path = p
		}
	}
	return files
}

// readDirectory reads the .yaml, .yml and .json files of a directory. A ConfigMap volume is a directory of symbolic links that refer to
// ..data, which the kubelet replaces atomically. readDirectory resolves ..data only once, so that it never reads parts of two versions.
func readDirectory(dir string) (files []file) {
	real := dir
	if data, err := filepath.EvalSymlinks(filepath.Join(dir, "..data")); err == nil {
		real = data
	}
	entries, err := os.ReadDir(real)
	if err != nil {
		return []file{{name: dir, err: err}}
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			continue // for example ..data, a swap file of an editor, or README.md
		}
		if info, err := os.Stat(filepath.Join(real, name)); err == nil && info.IsDir() {
			continue
		}
		files = append(files, readFile(filepath.Join(real, name), filepath.Join(dir, name)))
	}
	return files
}

func readFile(path, name string) file {
	f := file{name: name}
	opened, err := os.Open(path)
	if err != nil {
		f.err = err
		return f
	}
	defer opened.Close()
	if info, err := opened.Stat(); err == nil && !info.Mode().IsRegular() {
		f.err = fmt.Errorf("%s: not a regular file", name) // reading a named pipe could block the load forever
		return f
	}
	f.text, f.err = io.ReadAll(io.LimitReader(opened, maxFile+1))
	if f.err == nil && len(f.text) > maxFile {
		f.err = fmt.Errorf("%s: larger than %d MiB", name, maxFile>>20)
	}
	f.hash = sha256.Sum256(f.text)
	return f
}

func (f *file) problem() policy.Problem {
	err := f.err
	if r := (*refusal)(nil); errors.As(err, &r) {
		return r.Problem
	}
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		err = pe.Err
	}
	return policy.Problem{File: f.name, Message: "cannot be read: " + err.Error()}
}

// LoadFS loads the .yaml, .yml and .json files in the root directory of a file system, for example of embedded files, as Load does.
func (s *Store) LoadFS(fsys fs.FS) Report {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return s.load([]file{{name: ".", err: err}})
	}
	var files []file
	for _, e := range entries {
		if e.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(e.Name())) {
			continue
		}
		f := file{name: e.Name()}
		f.text, f.err = fs.ReadFile(fsys, e.Name())
		f.hash = sha256.Sum256(f.text)
		files = append(files, f)
	}
	return s.load(files)
}
