package main

import (
	"slices"
	"testing"

	"github.com/alecthomas/kong"
)

// What can be set is what the default command is asked with: its flags that say the question and the search.
func TestSettingKeys(t *testing.T) {
	parser, err := kong.New(new(grammar))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range everyFlag(parser.Model.Node) {
		group := ""
		if f.Group != nil {
			group = f.Group.Key
		}
		if slices.Contains([]string{"question", "machine", "run", "search"}, group) || f.Name == "top" || f.Name == "objective" {
			want = append(want, f.Name)
		}
	}
	if !slices.Equal(settingKeys, want) {
		t.Errorf("the keys of moeplan.yaml are\n%q\nand the flags of plan\n%q", settingKeys, want)
	}
}
