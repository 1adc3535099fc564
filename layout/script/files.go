package script

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
)

// files is what exists for a script: the caller's fs.FS seen as workDir, the directories that the script enters or
// makes, and nothing else.
type files struct {
	source  fs.FS
	script  string // directory of the script in source
	max     int
	folders map[string]bool
}

func newFiles(o Options, name string) *files {
	f := &files{source: o.Sources, script: path.Dir(name), max: o.MaxBytes, folders: map[string]bool{}}
	for _, d := range []string{"/", workDir, homeDir, "/tmp", path.Dir(workDir + "/" + name)} {
		f.folders[d] = true
	}
	return f
}

func absolute(name, dir string) string {
	if !path.IsAbs(name) {
		name = path.Join(dir, name)
	}
	return path.Clean(name)
}

// inSource is the path in the caller's fs.FS of a path that the script names.
func (f *files) inSource(abs string) (string, bool) {
	if f.source == nil {
		return "", false
	}
	if abs == workDir {
		return ".", true
	}
	rest, ok := strings.CutPrefix(abs, workDir+"/")
	return rest, ok && fs.ValidPath(rest)
}

// read returns the text of a regular file no longer than the limit.
func (f *files) read(name, dir string) (string, bool) {
	inside, ok := f.inSource(absolute(name, dir))
	if !ok {
		return "", false
	}
	text, err := readBounded(f.source, inside, f.max)
	return text, err == nil
}

// find looks for a script that another one names: where it says, else beside the script itself.
func (f *files) find(name, dir string) (abs, text string, ok bool) {
	for _, d := range []string{dir, path.Join(workDir, f.script)} {
		abs = absolute(name, d)
		if text, ok = f.read(abs, "/"); ok {
			return abs, text, true
		}
	}
	return "", "", false
}

var errTooLarge = errors.New("too large")

func readBounded(fsys fs.FS, name string, limit int) (string, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fs.ErrInvalid
	}
	b, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err == nil && len(b) > limit {
		err = errTooLarge
	}
	return string(b), err
}

func (f *files) info(name string) (fs.FileInfo, bool) {
	name = path.Clean(name)
	if f.folders[name] {
		return thing{name: name, dir: true}, true
	}
	inside, ok := f.inSource(name)
	if !ok {
		return nil, false
	}
	info, err := fs.Stat(f.source, inside)
	if err != nil {
		return nil, false
	}
	return thing{name: info.Name(), dir: info.IsDir(), size: info.Size()}, true
}

// list is for globs: a directory of the caller's, or nothing.
func (f *files) list(name, dir string) ([]fs.DirEntry, error) {
	inside, ok := f.inSource(absolute(name, dir))
	if !ok {
		return nil, nil
	}
	entries, err := fs.ReadDir(f.source, inside)
	if err != nil {
		return nil, nil
	}
	const most = 1000
	out := make([]fs.DirEntry, 0, min(len(entries), most))
	for _, e := range entries[:min(len(entries), most)] {
		out = append(out, fs.FileInfoToDirEntry(thing{name: e.Name(), dir: e.IsDir()}))
	}
	return out, nil
}

// thing is a file or directory without any tie to the machine: no owner, no times, no Sys.
type thing struct {
	name string
	dir  bool
	size int64
}

func (t thing) Name() string       { return path.Base(t.name) }
func (t thing) Size() int64        { return t.size }
func (t thing) ModTime() time.Time { return time.Time{} }
func (t thing) IsDir() bool        { return t.dir }
func (t thing) Sys() any           { return nil }

func (t thing) Mode() fs.FileMode {
	if t.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
