package megatron

import (
	"fmt"
	"strconv"
	"strings"
)

// Release is one release of Megatron-Core, or main. The zero value is main, NVIDIA/Megatron-LM@d98e8a64dd (0.20.0).
type Release struct {
	place uint8 // 0: main; else 1 + index in releases
}

// Main is the newest state that the table of flags knows.
var Main = Release{}

// releases lists every release with a tag from 0.11.0 on, in order, with the release of the table that has its flags. Patch
// releases were compared (megatron-versions.md section 0): only 0.17.0 has flags of its own.
var releases = []struct {
	major, minor, patch int
	flags               string
}{
	{0, 11, 0, "0.11.0"},
	{0, 12, 0, "0.12.3"}, {0, 12, 1, "0.12.3"}, {0, 12, 2, "0.12.3"}, {0, 12, 3, "0.12.3"},
	{0, 13, 0, "0.13.1"}, {0, 13, 1, "0.13.1"},
	{0, 14, 0, "0.14.0"},
	{0, 15, 0, "0.15.3"}, {0, 15, 1, "0.15.3"}, {0, 15, 2, "0.15.3"}, {0, 15, 3, "0.15.3"},
	{0, 16, 0, "0.16.1"}, {0, 16, 1, "0.16.1"},
	{0, 17, 0, "0.17.1"}, {0, 17, 1, "0.17.1"},
	{0, 18, 0, "0.18.2"}, {0, 18, 2, "0.18.2"},
	{0, 19, 0, "0.19.0"}, {0, 19, 1, "0.19.0"}, // the tag core_v0.19.0 calls itself 0.19.1
}

// UnknownReleaseError is what ParseRelease returns for a release that the table does not know.
type UnknownReleaseError struct {
	Text    string
	Nearest Release // the closest one; an unknown newer release is closest to main
}

// Error names the release and the nearest known one.
func (e *UnknownReleaseError) Error() string {
	return fmt.Sprintf("unknown Megatron-Core release %s: the nearest known one is %s (0.11.0 to 0.19.0 and main)", quoted(e.Text), e.Nearest)
}

// ParseRelease reads "0.12.3", "0.12" (its last patch release), "main", or a tag or branch such as "core_v0.12.0" or
// "core_r0.12.0". "" is main, and so are "0.20", "0.20.0" and "0.20.0-main". The error is an *UnknownReleaseError.
func ParseRelease(text string) (Release, error) {
	switch text {
	case "", "main", "0.20", "0.20.0", "0.20.0-main":
		return Main, nil
	}
	number := text
	for _, prefix := range []string{"core_v", "core_r", "v"} {
		if rest, ok := strings.CutPrefix(number, prefix); ok {
			number = rest
			break
		}
	}
	parts := strings.Split(number, ".")
	var n [3]int
	for i, part := range parts {
		v, err := strconv.Atoi(part)
		if err != nil || v < 0 || v > 1000 || i > 2 || len(parts) < 2 {
			return Main, &UnknownReleaseError{text, Main}
		}
		n[i] = v
	}
	if len(parts) == 2 {
		n[2] = -1
	}
	return findRelease(text, n[0], n[1], n[2])
}

// findRelease looks a release up; a negative patch takes the last one of its series.
func findRelease(text string, major, minor, patch int) (Release, error) {
	nearest, distance := 0, 1<<30
	for i, r := range releases {
		if r.major == major && r.minor == minor && (patch < 0 || r.patch == patch) {
			nearest, distance = i, 0
			if patch >= 0 {
				break
			}
			continue
		}
		if distance == 0 {
			break
		}
		d := 10000*(r.major-major) + 100*(r.minor-minor) + r.patch - max(patch, 0)
		if d = max(d, -d); d <= distance {
			nearest, distance = i, d
		}
	}
	if distance == 0 {
		return Release{uint8(nearest + 1)}, nil
	}
	last := releases[len(releases)-1]
	if major > last.major || major == last.major && minor > last.minor {
		return Main, &UnknownReleaseError{text, Main}
	}
	return Main, &UnknownReleaseError{text, Release{uint8(nearest + 1)}}
}

// String returns "0.12.3" or "main".
func (r Release) String() string {
	if r.place == 0 {
		return "main"
	}
	v := releases[r.place-1]
	return fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch)
}

// Compare is negative where r is older than o, and positive where it is newer.
func (r Release) Compare(o Release) int { return r.order() - o.order() }

func (r Release) order() int {
	if r.place == 0 {
		return len(releases)
	}
	return int(r.place) - 1
}

// AtLeast reports whether r is the named release or a newer one, patch releases told apart: for the few changes inside a
// series (0.12.1, 0.18.2). The name must be one that ParseRelease reads.
func (r Release) AtLeast(name string) bool { return r.Compare(mustRelease(name)) >= 0 }

// From reports whether r has what the research notes call "first at" one of the ten compared releases: those know only
// their last patch releases, so that 0.16.0 counts as 0.16.1. The name must be one that ParseRelease reads.
func (r Release) From(name string) bool { return r.column() >= mustRelease(name).column() }

func mustRelease(name string) Release {
	r, err := ParseRelease(name)
	if err != nil {
		panic("bug: " + err.Error())
	}
	return r
}
