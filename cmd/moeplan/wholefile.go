package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// writeWhole writes a file whole or not at all: into a file of a name that nobody has, which then takes its place. What a link
// points at is replaced, never the link. What is no file (a device, a pipe) cannot be replaced and is written to as it is.
func writeWhole(name string, data []byte) (err error) {
	at, err := writable(name)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(at); err == nil && !info.Mode().IsRegular() {
		return writeThrough(at, data)
	} else if err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(at), "."+filepath.Base(at)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), at)
}

func writeThrough(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// writable says where a file would be written, links followed, or why it cannot be. Commands ask before they work, so that a
// search of seconds does not end at a folder that is not there. It changes nothing.
func writable(name string) (at string, err error) {
	at = name
	if link, err := os.Lstat(name); err == nil && link.Mode()&fs.ModeSymlink != 0 {
		if at, err = filepath.EvalSymlinks(name); err != nil {
			return "", fmt.Errorf("%s: the link leads nowhere, and is not replaced: %w", name, err)
		}
	}
	info, err := os.Stat(at)
	switch {
	case err == nil && info.IsDir():
		return "", fmt.Errorf("%s is a folder: name a file in it", name)
	case err == nil && info.Mode().IsRegular():
		f, err := os.OpenFile(at, os.O_WRONLY, 0) // a file that is write-protected is not replaced either
		if err != nil {
			return "", err
		}
		return at, f.Close()
	case err == nil:
		return at, nil
	}
	folder, err := os.Stat(filepath.Dir(at))
	if err != nil {
		return "", fmt.Errorf("%s: its folder cannot be written to: %w", name, err)
	}
	if !folder.IsDir() {
		return "", fmt.Errorf("%s: %s is no folder", name, filepath.Dir(at))
	}
	return at, nil
}
