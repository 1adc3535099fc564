package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/moeplan/moeplan/cmd/internal/config"
)

// settingsName is the file that holds what a project, or a person, always answers with.
const settingsName = "moeplan.yaml"

// envPrefix begins the environment variables that hold a flag's value: MOEPLAN_GLOBAL_BATCH is --global-batch.
// MOEPLAN_CONFIG names the settings file itself, or none.
const (
	envPrefix = "MOEPLAN_"
	envConfig = envPrefix + "CONFIG"
)

// settings answer for flags that a command line leaves out: the environment, then the project's file (moeplan.yaml in the
// working directory or the nearest above it), then the person's (moeplan/moeplan.yaml in the user's configuration
// directory). It is a kong.Resolver.
type settings struct {
	env func(string) string
	// files are read when the first flag asks, so that a file at fault stops no command that would not read it.
	loaded bool
	files  []config.Setting // the project's first
	err    error
	// used are those that answered, by key.
	used map[string]config.Setting
}

// settingKeys are what can be set: the flags of the default command that say what is asked and searched, in its order.
// They are written out so that no other command has to build that one's grammar; TestSettingKeys holds them to it.
var settingKeys = []string{
	"model", "gpus", "gpu",
	"domain", "gpus-per-node", "memory-gib", "nic-gbit", "nvlink-gbps", "hbm-gbps", "bf16-tflops", "sm",
	"seq", "global-batch", "precision", "imbalance", "moments", "grads", "order", "headroom", "reserve-gib", "offload",
	"trainable-fraction", "calibration",
	"tp", "cp", "pp", "ep", "etp", "vpp", "mbs", "recompute", "where", "wide", "objective",
	"top",
}

func newSettings(env func(string) string) *settings {
	return &settings{env: env, used: map[string]config.Setting{}}
}

// knows reports whether a key can be set.
func (s *settings) knows(key string) bool { return slices.Contains(settingKeys, key) }

// Validate is part of kong.Resolver.
func (s *settings) Validate(*kong.Application) error { return nil }

// narrowed are commands with flags of the same name that mean something else, with the keys that hold there.
var narrowed = map[string][]string{
	"recipes": {}, // its flags are filters
	"check":   {"gpu", "headroom", "reserve-gib"},
	"ranks":   {"gpu", "domain"},
}

// Resolve answers for a flag.
func (s *settings) Resolve(k *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	if !s.knows(flag.Name) {
		return nil, nil
	}
	if parent.Command != nil {
		if keys, ok := narrowed[parent.Command.Name]; ok && !slices.Contains(keys, flag.Name) {
			return nil, nil
		}
		if parent.Command.Name == "size" && flag.Name == "gpus" { // a table over numbers of GPUs
			return nil, nil
		}
	}
	if slices.ContainsFunc(k.Args, func(a string) bool { return a == "--plan" || strings.HasPrefix(a, "--plan=") }) {
		return nil, nil // a plan file brings its own answers
	}
	found, err := s.find(flag.Name)
	if err != nil || found == nil {
		return nil, err
	}
	s.used[flag.Name] = *found
	return found.Value, nil
}

// find looks a key up.
func (s *settings) find(key string) (*config.Setting, error) {
	name := envPrefix + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
	if value := s.env(name); value != "" {
		return &config.Setting{Key: key, Value: value, File: name}, nil
	}
	if !s.loaded {
		s.loaded = true
		s.err = s.load()
	}
	if s.err != nil {
		return nil, s.err
	}
	for i := range s.files {
		if s.files[i].Key == key {
			return &s.files[i], nil
		}
	}
	return nil, nil
}

func (s *settings) load() error {
	paths, err := s.paths()
	if err != nil {
		return err
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return &coded{exitUsage, err}
		}
		found, err := config.ReadSettings(path, f, settingKeys)
		f.Close()
		if err != nil {
			return &coded{exitUsage, err}
		}
		for i := range found {
			found[i].Value = nextTo(path, found[i].Key, found[i].Value)
		}
		s.files = append(s.files, found...)
	}
	return nil
}

// paths are the files to read, the one that wins first.
func (s *settings) paths() ([]string, error) {
	switch given := s.env(envConfig); given {
	case "":
	case "none":
		return nil, nil
	default:
		if _, err := os.Stat(given); err != nil {
			return nil, usage("%s: %v", envConfig, err)
		}
		return []string{given}, nil
	}
	var paths []string
	if dir, err := os.Getwd(); err == nil {
		for {
			path := filepath.Join(dir, settingsName)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				paths = append(paths, path)
				break
			}
			up := filepath.Dir(dir)
			if up == dir {
				break
			}
			dir = up
		}
	}
	if dir, err := os.UserConfigDir(); err == nil {
		paths = append(paths, filepath.Join(dir, "moeplan", settingsName))
	}
	return paths, nil
}

// nextTo finds the file of a model, a platform or a calibration where the settings that name it lie.
func nextTo(settings, key, value string) string {
	if (key == "model" || key == "gpu" || key == "calibration") && isFile(value) && !filepath.IsAbs(value) {
		return filepath.Join(filepath.Dir(settings), value)
	}
	return value
}

// blame puts where a value came from, if no flag gave it, in front of an error about it: file:line: key, or the variable.
func (s *settings) blame(err error) error {
	if err == nil {
		return nil
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok { // each has its own origin
		var out []error
		for _, e := range several.Unwrap() {
			out = append(out, s.blame(e))
		}
		return errors.Join(out...)
	}
	text := err.Error()
	for _, key := range settingKeys {
		from, ok := s.used[key]
		if !ok {
			continue
		}
		where, place := from.File, from.File // a variable says which flag it answers
		if from.Line > 0 {
			where, place = from.Where(), from.Where()+": "+key
		}
		flag := "--" + key
		rest, first := strings.CutPrefix(text, flag)
		switch {
		case first && (rest == "" || strings.ContainsRune(" :=", rune(rest[0]))):
			return &blamed{place + rest, err}
		case strings.Contains(text+" ", flag+" ") || strings.Contains(text, flag+":") || strings.Contains(text, flag+"="):
			return &blamed{fmt.Sprintf("%s (from %s)", text, where), err}
		case quotes(text, key, from.Value):
			return &blamed{place + ": " + text, err}
		}
	}
	return err
}

// quotes reports whether an error is about a key's value, or one of the parts of a list: it quotes it, or names the file
// that it is.
func quotes(text, key, value string) bool {
	if isFile(value) && strings.Contains(text, value) {
		return true
	}
	if noun := map[string]string{"gpu": "platform", "model": "model"}[key]; !strings.Contains(text, noun) {
		return false // a flag may hold the same text
	}
	for part := range strings.SplitSeq(value, ",") {
		if strings.Contains(text, strconv.Quote(part)) {
			return true
		}
	}
	return strings.Contains(text, strconv.Quote(value))
}

// blamed is an error with the place of the value in its text.
type blamed struct {
	text string
	err  error
}

func (b *blamed) Error() string { return b.text }
func (b *blamed) Unwrap() error { return b.err }

// note says which answers came from files, so that nobody wonders about a question that was not asked; "" for none.
func (s *settings) note() string {
	byFile := map[string][]string{}
	var files []string
	for _, key := range settingKeys {
		used, ok := s.used[key]
		if !ok || used.Line == 0 {
			continue
		}
		if byFile[used.File] == nil {
			files = append(files, used.File)
		}
		byFile[used.File] = append(byFile[used.File], "--"+key+" "+used.Value)
	}
	for i, f := range files {
		files[i] = fmt.Sprintf("%s sets %s", f, strings.Join(byFile[f], " "))
	}
	if len(files) == 0 {
		return ""
	}
	return "moeplan: " + strings.Join(files, "; ")
}
