package script

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

const canary = "canary-5d1f"

// world is a real directory with a real secret and a real executable, and a real environment variable. A script that
// gets at any of them has found a way out.
func world(t *testing.T) (dir string, snapshot func() string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"secret": canary + "\n", "secret.sh": "LEAK=" + canary + "\n", canary + ".txt": "", "run": "#!/bin/sh\ntouch " + dir + "/executed\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("MOEPLAN_CANARY", canary)
	t.Setenv("HOME", dir)
	t.Setenv("TMPDIR", dir)
	t.Chdir(dir)
	snapshot = func() string {
		var b strings.Builder
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			data := []byte(nil)
			if info.Mode().IsRegular() {
				data, _ = os.ReadFile(path)
			}
			fmt.Fprintln(&b, path, info.Mode(), info.ModTime(), string(data))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	return dir, snapshot
}

// TestWaysOut tries each way by which a script could execute, write or read something on this machine. Every row ends
// with a launch that carries what the row got hold of; @ stands for the real directory.
func TestWaysOut(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"redirect >", `echo x > @/written`},
		{"redirect >>", `echo x >> @/written`},
		{"redirect >> to an existing file", `echo x >> @/secret`},
		{"redirect >|", `echo x >| @/written`},
		{"redirect &>", `echo x &> @/written`},
		{"redirect &>>", `echo x &>> @/written`},
		{"redirect >&word", `echo x >& @/written`},
		{"redirect 2>", `nosuch 2> @/written`},
		{"redirect 2>>", `nosuch 2>> @/written`},
		{"redirect <>", `cat <> @/written`},
		{"redirect <> reads", `GOT=$(cat <> @/secret)`},
		{"redirect descriptor 3", `exec 3> @/written; echo x >&3`},
		{"redirect named descriptor", `exec {fd}> @/written; echo x >&$fd`},
		{"redirect of a block", `{ echo x; echo y; } > @/written`},
		{"redirect of a loop", `for i in 1 2; do echo $i; done > @/written`},
		{"redirect of a function", `f() { echo x; } > @/written; f`},
		{"redirect of the shell", `exec > @/written 2>&1; echo x`},
		{"truncation without a command", `> @/secret`},
		{"noclobber", `set -C; echo x > @/written`},
		{"tee", `echo x | tee @/written`},
		{"cp and mv", `cp @/secret @/written; mv @/secret @/moved`},
		{"rm", `rm -rf @; rm -f @/secret`},
		{"touch and mkdir", `touch @/written; mkdir -p @/new`},
		{"process substitution out", `echo x > >(cat > @/written)`},
		{"process substitution out as argument", `tee >(cat > @/written) < /dev/null`},
		{"process substitution in", `GOT=$(cat <(cat @/secret))`},
		{"process substitution from a file", `read GOT < <(cat @/secret)`},
		{"mkfifo", `mkfifo @/fifo`},
		{"here-document to a file", "cat > @/written <<EOF\nx\nEOF"},
		{"here-string to a file", `cat > @/written <<< x`},
		{"a program by name", `touch @/executed`},
		{"a program by path", `@/run`},
		{"a program by path, relative", `./run`},
		{"exec", `(exec @/run)`},
		{"command", `command @/run`},
		{"command -p", `command -p touch @/executed`},
		{"builtin command", `builtin command @/run`},
		{"eval", `eval "@/run; echo x > @/written"`},
		{"eval hiding a process substitution", `eval 'cat <(echo x) > @/written'`},
		{"eval in eval", `eval eval 'echo x \> @/written'`},
		{"trap EXIT", `trap 'echo x > @/written; @/run' EXIT`},
		{"trap ERR", `trap '@/run' ERR; false`},
		{"alias", "shopt -s expand_aliases\nalias x='@/run'\nx"},
		{"function", `f() { @/run; }; f`},
		{"background", `@/run & wait`},
		{"coproc", `coproc @/run; wait`},
		{"pipe", `echo x | @/run`},
		{"bash -c", `bash -c "@/run; echo x > @/written"`},
		{"bash file", `bash @/run`},
		{"env", `env -i @/run; env X=1 @/run`},
		{"xargs", `echo @/run | xargs -n1 sh`},
		{"find -exec", `find @ -exec touch @/executed \;`},
		{"sudo, nohup, timeout", `sudo @/run; nohup @/run; timeout 1 @/run`},
		{"PATH", `PATH=@:$PATH; run`},
		{"hash", `hash -p @/run run; run`},
		{"enable -f", `enable -f @/run x; x`},
		{"command substitution", `GOT=$(@/run)`},
		{"backquotes", "GOT=`cat @/secret`"},
		{"$(<file)", `GOT=$(<@/secret)`},
		{"cat", `GOT=$(cat @/secret)`},
		{"read", `read -r GOT < @/secret`},
		{"read -u", `exec 4< @/secret; read -r -u 4 GOT`},
		{"read -d", `IFS= read -r -d '' GOT < @/secret`},
		{"while read", `while read -r l; do GOT=$l; done < @/secret`},
		{"mapfile", `mapfile -t A < @/secret; GOT=${A[0]}`},
		{"mapfile -C", `mapfile -C @/run -c 1 A < @/secret`},
		{"source", `source @/secret.sh; GOT=$LEAK`},
		{"source without a path", `PATH=@; source secret.sh; GOT=$LEAK`},
		{"dot", `. @/secret.sh; GOT=$LEAK`},
		{"dot, relative", `. ./secret.sh; GOT=$LEAK`},
		{"dot, climbing", `. ../../../../../../../../..@/secret.sh; GOT=$LEAK`},
		{"cd and source", `cd @ && . ./secret.sh; GOT=$LEAK`},
		{"builtin source", `builtin source @/secret.sh; GOT=$LEAK`},
		{"command source", `command . @/secret.sh; GOT=$LEAK`},
		{"source of a process substitution", `source <(cat @/secret.sh); GOT=$LEAK`},
		{"glob", `GOT=$(echo @/*); GOT="$GOT $(echo *)"`},
		{"glob in an array", `A=(@/canary*); [[ ${A[0]} == *'*' ]] || GOT="${A[0]}"`},
		{"glob in a loop", `for f in @/canary*; do case $f in *\*) ;; *) GOT=$f ;; esac; done`},
		{"globstar", `shopt -s globstar; for f in @/**/canary*; do case $f in *\*) ;; *) GOT=$f ;; esac; done`},
		{"test -f", `[ -f @/secret ] && GOT=` + canary},
		{"test -e, [[", `[[ -e @/secret || -r @/secret || -s @/secret ]] && GOT=` + canary},
		{"test -d", `test -d @ && GOT=` + canary},
		{"test -x", `test -x @/run && GOT=` + canary},
		{"test -O", `[ -O @/secret ] && GOT=` + canary},
		{"[[ -G", `[[ -G @/secret ]] && GOT=` + canary},
		{"[[ -N", `[[ -N @/secret ]] && GOT=` + canary},
		{"test -nt", `[ @/secret -nt /nowhere ] && GOT=` + canary},
		{"test -ef", `[ @/secret -ef @/secret ] && GOT=` + canary},
		{"cd to a real directory", `cd @/run/.. && cd - >/dev/null; GOT=$(ls @)`},
		{"pwd -P", `cd @; GOT=$(pwd -P | grep canary)`},
		{"type -p", `PATH=@; [ "$(type -p run)" = @/run ] && GOT=` + canary},
		{"command -v", `PATH=@; [ "$(command -v run)" = @/run ] && GOT=` + canary},
		{"environment", `GOT=$MOEPLAN_CANARY`},
		{"environment by indirection", `X=MOEPLAN_CANARY; GOT=${!X}`},
		{"environment by prefix", `GOT="${!MOEPLAN_*}"; [ -n "$GOT" ] && GOT=` + canary},
		{"env command", `GOT=$(env; printenv MOEPLAN_CANARY; export -p; set; declare -p)`},
		{"/proc", `GOT=$(cat /proc/self/environ; cat /proc/self/cmdline)`},
		{"home", `[ "$HOME" = @ ] && GOT=` + canary},
		{"tilde", `[ ~ = @ ] && GOT=` + canary},
		{"working directory", `[ "$PWD" = @ ] && GOT=` + canary},
		{"/etc/passwd", `while IFS=: read -r u rest; do [ "$u" = root ] && GOT=` + canary + `; done < /etc/passwd`},
		{"/dev/tcp", `exec 5<>/dev/tcp/127.0.0.1/22; echo x >&5; cat <&5`},
		{"/dev/tcp read", `GOT=$(cat < /dev/tcp/127.0.0.1/22)`},
		{"/dev/stdin", `GOT=$(cat /dev/stdin); read -r GOT < /dev/stdin`},
		{"named pipe of the interpreter", `GOT=$(cat < /dev/null/moeplan/sh-interp-1); echo x > @/sh-interp-1; TMPDIR=@; cat <(true) > @/sh-interp-2`},
		{"the interpreter's temporary directory", `export TMPDIR=@; bash -c 'cat <(echo x)'`},
		{"select", `select x in a b; do @/run; break; done`},
		{"BASH_ENV", `export BASH_ENV=@/secret.sh; bash -c 'true'`},
		{"PROMPT_COMMAND and PS4", `PS4='$(@/run)'; set -x; PROMPT_COMMAND=@/run; true`},
		{"arithmetic", `A[$(@/run)]=1; ((x = A[$(@/run)]))`},
		{"array index injection", `X='A[$(@/run)]'; [[ $X -eq 0 ]]; (($X))`},
		{"printf -v", `printf -v GOT '%s' "$(<@/secret)"`},
		{"wget", `wget -O @/written http://127.0.0.1/; curl -o @/written http://127.0.0.1/`},
		{"history and fc", `history -r @/secret; fc -e @/run; GOT=$(history)`},
		{"ulimit and umask", `ulimit -n 1; umask 777`},
		{"kill", `kill -9 $$ $PPID; kill 0`},
		{"exec keeps reading", `exec 0< @/secret; read -r GOT`},
		{"srun with a string", `srun bash -c 'cat @/secret > @/written'`},
		{"ssh with a string", `ssh host "cat @/secret > @/written"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, snapshot := world(t)
			before := snapshot()
			text := strings.ReplaceAll(tt.script, "@", dir) + "\ntorchrun pretrain_gpt.py --num-layers 2 --data-path \"$GOT\"\n"
			// The files that may be read are others than those of the real directory.
			opts := Options{Sources: fstest.MapFS{"allowed.sh": {Data: []byte("OK=1\n")}}, Timeout: 5 * time.Second}
			s, err := ReadBash(context.Background(), "attack.sh", strings.NewReader(text), opts)
			if err != nil {
				t.Fatal(err)
			}
			if after := snapshot(); after != before {
				t.Errorf("the directory has changed:\n%s\n---\n%s", before, after)
			}
			found := fmt.Sprint(s.Commands)
			value := ""
			if i := strings.LastIndex(found, "--data-path"); i >= 0 {
				value = found[i:]
			}
			if strings.Contains(value, canary) {
				t.Errorf("the script read something: %s", value)
			}
			if c := s.Training(); c == nil && !strings.Contains(tt.script, "exec") {
				t.Errorf("the launch after it is gone: %+v", s.Warnings)
			}
		})
	}
}

// TestAllowedSources: what the caller hands over is read, and only below it.
func TestAllowedSources(t *testing.T) {
	sources := fstest.MapFS{
		"scripts/run.sh":         {Data: []byte("x")},
		"scripts/env.sh":         {Data: []byte("TP=2\n")},
		"scripts/models/qwen.sh": {Data: []byte("MODEL_ARGS=(--num-layers 94\n --hidden-size 4096)\n")},
		"hostfile":               {Data: []byte("a\nb\nc\n")},
	}
	for _, tt := range []struct{ name, script, want string }{
		{"beside the script, by its own directory", `source "$(dirname "$0")/env.sh"; torchrun p.py --num-layers $TP`, "--num-layers 2"},
		{"by BASH_SOURCE and cd", `D="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"; source "$D/models/qwen.sh"; torchrun p.py "${MODEL_ARGS[@]}"`, "--num-layers 94 --hidden-size 4096"},
		{"from the starting directory", `. scripts/env.sh; torchrun p.py --num-layers $TP`, "--num-layers 2"},
		{"beside the script, by a path that is only right there", `. ./env.sh; torchrun p.py --num-layers $TP`, "--num-layers 2"},
		{"after cd", `cd scripts && source env.sh; torchrun p.py --num-layers $TP`, "--num-layers 2"},
		{"counted lines", `N=0; while read -r h; do N=$((N+1)); done < hostfile; torchrun p.py --num-layers $N`, "--num-layers 3"},
		{"mapfile", `mapfile -t H < hostfile; torchrun p.py --num-layers ${#H[@]}`, "--num-layers 3"},
		{"glob", `for f in scripts/models/*.sh; do source $f; done; torchrun p.py "${MODEL_ARGS[@]}"`, "--num-layers 94 --hidden-size 4096"},
		{"test", `if [ -f scripts/env.sh ]; then torchrun p.py --num-layers 1; fi`, "--num-layers 1"},
		{"another script", `bash scripts/env.sh; bash -c '. scripts/env.sh; torchrun p.py --num-layers $TP'`, "--num-layers 2"},
		{"arguments of a sourced file", `set -- 7; . scripts/env.sh 8; torchrun p.py --num-layers $1`, "--num-layers 7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := ReadBash(context.Background(), "scripts/run.sh", strings.NewReader(tt.script), Options{Sources: sources})
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Commands) != 1 || strings.Join(s.Commands[0].Args, " ") != tt.want {
				t.Errorf("got %+v\nwarnings %+v\nwant %s", s.Commands, s.Warnings, tt.want)
			}
		})
	}
}
