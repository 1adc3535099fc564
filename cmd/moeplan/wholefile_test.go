package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWriteWhole(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		to           string
		wantErr      string   // part of the error; "": it is written
		want         []string // what the folder then holds, as "name text"
	}{
		{"new", "the ordinary case, and nothing else is left", "new", "", []string{"dir/", "link", "mine.part kept", "new it", "old old"}},
		{"old", "what stands there is replaced", "old", "", []string{"dir/", "link", "mine.part kept", "old it"}},
		{"neighbour", "a person's own FILE.part is no scratch file of ours", "mine", "", []string{"dir/", "link", "mine it", "mine.part kept", "old old"}},
		{"link", "a link is to stay one, what it points at is replaced", "link", "", []string{"dir/", "link", "mine.part kept", "old it"}},
		{"folder", "a folder is no file, and nothing is left beside it", "dir", "is a folder", []string{"dir/", "link", "mine.part kept", "old old"}},
		{"no folder", "the message names what is missing", "nowhere/x", "its folder cannot be written to", []string{"dir/", "link", "mine.part kept", "old old"}},
		{"file as folder", "a file holds no files", "old/x", "old", []string{"dir/", "link", "mine.part kept", "old old"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"old": "old", "mine.part": "kept"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(filepath.Join(dir, "dir"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("old", filepath.Join(dir, "link")); err != nil {
				t.Skip(err) // Windows without the right to make links
			}
			err := writeWhole(filepath.Join(dir, filepath.FromSlash(tt.to)), []byte("it"))
			if (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("%s: error %v, want %q", tt.reason, err, tt.wantErr)
			}
			if got := held(t, dir); !slices.Equal(got, tt.want) {
				t.Errorf("%s: the folder holds %q, want %q", tt.reason, got, tt.want)
			}
		})
	}
}

// held lists a folder: files with their text, folders with a slash, links bare.
func held(t *testing.T, dir string) (out []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		switch {
		case e.IsDir():
			out = append(out, e.Name()+"/")
		case e.Type()&fs.ModeSymlink != 0:
			out = append(out, e.Name())
		default:
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, e.Name()+" "+string(text))
		}
	}
	return out
}
