package store

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

// maxFile bounds one file; a ConfigMap holds at most 1 MiB.
const maxFile = 16 << 20

// file is what stands on disk under one name.
type file struct {
	path *Path  // the path that it belongs to; nil accepts every document
	name string // as it is shown: the path given to Load, and the name within it
	text []byte
	hash [sha256.Size]byte
	err  error // why it could not be read; what was read of it before stays in force
}

// readAll reads the files of the paths: files by name, directories one level deep. A path that cannot be read is a file with an
// error, so that nothing it held before is taken for deleted.
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

// readDirectory reads the .yaml, .yml and .json files of a directory. A ConfigMap volume is a directory of symlinks through
// ..data, which the kubelet swaps as one; it is resolved once, so that one load never sees half of an update.
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
			continue // ..data, editors' swap files, README.md
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
		f.err = fmt.Errorf("%s: not a regular file", name) // a pipe would block the load for ever
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
	if pe, ok := err.(*fs.PathError); ok {
		err = pe.Err
	}
	return policy.Problem{File: f.name, Message: "cannot be read: " + err.Error()}
}
